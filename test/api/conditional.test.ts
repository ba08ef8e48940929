// ETags and conditional requests: 304 for unchanged resources and 412 for writes based on an outdated
// version.
import test from 'ava'
import mysql from 'mysql2/promise'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'
import type { Answer } from '../support/http.ts'
import { createGroup, createUser, newGroup, newPerson } from '../support/records.ts'

const { service, api, openClient, close } = await openApi({ workers: 2 })
// Several connections, so that both workers receive requests.
const clients = Array.from({ length: 8 }, () => openClient())
test.after.always(close)

const etagOf = ({ headers }: Answer): string => String(headers.etag)
const etagAt = async (path: string) => etagOf(await api.get(path))

/** Creates a user that is a member of a group. */
async function createMember() {
  const user = await createUser(api)
  const group = await createGroup(api)
  await api.post(`/v1/users/${user}/groups`, { id: group })
  return { user, group }
}
const readsOf = ({ user, group }: { user: number; group: number }) => [
  `/v1/users/${user}`,
  `/v1/users/${user}?include=groups`,
  `/v1/users/${user}/groups`,
  `/v1/groups/${group}`,
  `/v1/users?id=${user}`,
  `/v1/users?id=${user}&include=groups`,
  `/v1/groups?id=${group}`,
]

test.serial(
  'conditional: every read has a strong ETag that stays the same until the resource changes',
  async t => {
    for (const path of readsOf(await createMember())) {
      const answer = await api.get(path)
      t.regex(etagOf(answer), /^"[!#-~]+"$/, path)
      t.is(answer.headers['cache-control'], 'no-cache')
      for (const client of clients) t.is(etagOf(await client.get(path)), etagOf(answer), path)
      const head = await api.send('HEAD', path)
      t.is(etagOf(head), etagOf(answer), path)
    }
  },
)

test.serial('conditional: a read of the current version returns 304 without a body', async t => {
  for (const path of readsOf(await createMember())) {
    const etag = await etagAt(path)
    for (const header of [etag, `W/${etag}`, `"other", ${etag}`, '*'])
      for (const method of ['GET', 'HEAD']) {
        const answer = await api.send(method, path, { 'if-none-match': header, 'request-id': 'known' })
        t.is(answer.status, 304, `${method} ${path} ${header}`)
        t.is(answer.text, '')
        t.is(etagOf(answer), etag)
        t.is(answer.headers['request-id'], 'known')
        t.is(answer.headers['content-type'], undefined)
      }
    const whole = await api.get(path, { 'if-none-match': '"other"' })
    expectOk(t, whole)
    t.is(etagOf(whole), etag)
    expectError(t, await api.get(path, { 'if-match': '"other"' }), 412, 'precondition_failed')
    expectOk(t, await api.get(path, { 'if-match': etag }))
  }
})

test.serial(
  'conditional: responses of a path share an ETag only if they are identical to the byte',
  async t => {
    const ids = await createMember()
    const { user, group } = ids
    const texts = new Map<string, string>()
    const compareReads = async () => {
      for (const path of readsOf(ids)) {
        const answer = await api.get(path)
        const key = `${path} ${etagOf(answer)}`
        t.is(answer.text, texts.get(key) ?? answer.text, key)
        texts.set(key, answer.text)
      }
    }
    const changes = [
      () => api.patch(`/v1/users/${user}`, newPerson()),
      () => api.put(`/v1/users/${user}`, {}),
      () => api.put(`/v1/groups/${group}`, newGroup()),
      () => api.delete(`/v1/users/${user}/groups/${group}`),
      () => api.post(`/v1/users/${user}/groups`, { groups: [{ id: group }] }),
      () => api.delete(`/v1/groups/${group}`),
    ]
    for (const change of changes) {
      await compareReads()
      expectOk(t, await change())
      if (change !== changes.at(-1)) await compareReads()
    }
  },
)

test.serial('conditional: a write returns the new ETag, which the next write can use', async t => {
  const pair = newPerson()
  const created = await api.post('/v1/users', pair)
  const path = `/v1/users/${created.body.id}`
  t.is(etagOf(created), await etagAt(path))
  const patched = await api.patch(path, { first_name: 'Changed' }, { 'if-match': etagOf(created) })
  expectOk(t, patched)
  t.not(etagOf(patched), etagOf(created))
  const unchanged = await api.patch(path, {}, { 'if-match': etagOf(patched) })
  t.is(etagOf(unchanged), etagOf(patched))
  const put = await api.put(path, pair, { 'if-match': etagOf(unchanged) })
  expectOk(t, put)
  t.is(etagOf(put), await etagAt(path))
  expectOk(t, await api.delete(path, { 'if-match': etagOf(put) }))
})

test.serial('conditional: a write based on another version returns 412 and changes nothing', async t => {
  const { user, group } = await createMember()
  const [path, complete, memberships] = [
    `/v1/users/${user}`,
    `/v1/users/${user}?include=groups`,
    `/v1/users/${user}/groups`,
  ]
  const stale = await Promise.all([path, complete, memberships].map(etagAt))
  expectOk(t, await api.patch(path, newPerson()))
  const { text } = await api.get(complete)
  const opaque = (await etagAt(path)).replaceAll('"', '')
  for (const outdated of [...stale, `W/${await etagAt(path)}`, stale.join(', '), '"x"', `"x${opaque}"`, ''])
    for (const send of [
      () => api.put(path, newPerson(), { 'if-match': outdated }),
      () => api.patch(path, newPerson(), { 'if-match': outdated }),
      () => api.patch(path, {}, { 'if-match': outdated }),
      () => api.delete(path, { 'if-match': outdated }),
      () => api.post(memberships, { id: group }, { 'if-match': outdated }),
      () => api.post(memberships, { groups: [{ id: group }] }, { 'if-match': outdated }),
      () => api.delete(`${memberships}/${group}`, { 'if-match': outdated }),
    ])
      expectError(t, await send(), 412, 'precondition_failed')
  const weakened = await api.put(path, newPerson(), { 'if-match': `W/${await etagAt(path)}` })
  t.regex(weakened.body.meta.message ?? '', /a weak ETag, which begins with W\/, never matches in If-Match$/)
  expectError(t, await api.put(path, {}, { 'if-none-match': '*' }), 412, 'precondition_failed')
  expectError(
    t,
    await api.delete(path, { 'if-none-match': `W/${await etagAt(path)}` }),
    412,
    'precondition_failed',
  )
  t.is((await api.get(complete)).text, text)
  expectOk(t, await api.patch(path, {}, { 'if-none-match': stale.join() }))
})

test.serial('conditional: a record that is stored again with the same values keeps its ETag', async t => {
  const { user, group } = await createMember()
  for (const path of [`/v1/users/${user}`, `/v1/groups/${group}`]) {
    const { body, headers } = await api.get(path)
    for (const send of [api.put, api.patch]) t.is((await send(path, body)).headers.etag, headers.etag)
    t.is(headers.etag, await etagAt(path))
  }
})

test.serial(
  'conditional: ETags of reads with include and of membership lists are valid for writes',
  async t => {
    const { user, group } = await createMember()
    const path = `/v1/users/${user}`
    for (const read of [path, `${path}?include=groups`, `${path}/groups`]) {
      expectOk(t, await api.patch(path, newPerson(), { 'if-match': `"x", ${await etagAt(read)}` }))
      expectOk(t, await api.delete(`${path}/groups/${group}`, { 'if-match': await etagAt(read) }))
      expectOk(t, await api.post(`${path}/groups`, { id: group }, { 'if-match': await etagAt(read) }))
    }
    const groupPath = `/v1/groups/${group}`
    const before = await etagAt(groupPath)
    expectOk(t, await api.put(groupPath, newGroup(), { 'if-match': before }))
    expectError(t, await api.delete(groupPath, { 'if-match': before }), 412, 'precondition_failed')
    expectOk(t, await api.delete(groupPath, { 'if-match': '*' }))
  },
)

test.serial(
  'conditional: invalid requests and missing resources come first, then the condition, then conflicts',
  async t => {
    const taken = newPerson()
    await api.create('/v1/users', taken)
    const path = `/v1/users/${await createUser(api)}`
    const stale = { 'if-match': '"x"' }
    expectError(t, await api.patch(path, { first_name: 1 }, stale), 400, 'invalid_field')
    expectError(t, await api.patch(path, taken, stale), 412, 'precondition_failed')
    expectError(t, await api.patch(path, taken, { 'if-match': '*' }), 409, 'user_exists')
    for (const headers of [stale, { 'if-match': '*' }, { 'if-none-match': '*' }]) {
      expectError(t, await api.patch('/v1/users/9999999', newPerson(), headers), 404, 'user_not_found')
      expectError(t, await api.delete('/v1/users/9999999', headers), 404, 'user_not_found')
      expectError(t, await api.get('/v1/users/9999999', headers), 404, 'user_not_found')
      expectError(t, await api.post('/v1/users/9999999/groups', { id: 1 }, headers), 404, 'user_not_found')
    }
    for (const name of ['if-match', 'if-none-match'])
      for (const broken of ['x', '"x', '"a" "b"', '*, "a"'])
        for (const method of ['GET', 'DELETE'])
          expectError(t, await api.send(method, path, { [name]: broken }), 400, 'malformed_request')
  },
)

test.serial('conditional: POST to a collection matches * but no ETag', async t => {
  const before = await api.count('/v1/users')
  for (const headers of [
    { 'if-match': '"x"' },
    { 'if-match': await etagAt('/v1/users') },
    { 'if-none-match': '*' },
  ])
    expectError(t, await api.post('/v1/users', newPerson(), headers), 412, 'precondition_failed')
  t.is(await api.count('/v1/users'), before)
  for (const headers of [{ 'if-match': '*' }, { 'if-none-match': '"x"' }])
    expectOk(t, await api.post('/v1/users', newPerson(), headers))
})

test.serial('conditional: exactly one of 60 concurrent changes to the same version succeeds', async t => {
  for (const target of ['/v1/users', '/v1/groups']) {
    const fieldsOf = (name: string) => (target === '/v1/users' ? { first_name: name } : { name })
    const fields = target === '/v1/users' ? newPerson() : newGroup()
    const path = `${target}/${await api.create(target, fields)}`
    const etag = await etagAt(path)
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        (clients[index % clients.length] ?? api).patch(path, fieldsOf(`racer ${index}`), {
          'if-match': etag,
        }),
      ),
    )
    const [winner, ...others] = answers.filter(({ status }) => status === 200)
    t.deepEqual(others, [])
    for (const answer of answers) if (answer !== winner) expectError(t, answer, 412, 'precondition_failed')
    const { text } = await api.get(path)
    t.true(text === winner?.text)
  }
})

test.serial('conditional: read-increment-write cycles with If-Match lose no update', async t => {
  const path = `/v1/users/${await api.create('/v1/users', { first_name: '0', last_name: 'Counter' })}`
  const increment = async (client: typeof api): Promise<void> => {
    const seen = await client.get(path)
    const first_name = String(Number(seen.body.first_name) + 1)
    const answer = await client.patch(path, { first_name }, { 'if-match': etagOf(seen) })
    if (answer.status === 412) return increment(client)
    expectOk(t, answer)
  }
  await Promise.all(
    clients.map(async client => {
      for (let round = 0; round < 10; round++) await increment(client)
    }),
  )
  t.is((await api.get(path)).body.first_name, '80')
})

test.serial(
  'conditional: a page changes its ETag with its records, also those that SQL gave one version',
  async t => {
    const connection = await mysql.createConnection(service.database)
    const rows = ['a', 'b'].map(last_name => ['Imported', last_name, 1])
    await connection.query('INSERT INTO users (first_name, last_name, version) VALUES ?', [rows])
    connection.destroy()
    const path = '/v1/users?first_name=Imported&records_per_page=1'
    const before = await api.get(path)
    expectOk(t, await api.delete(`/v1/users/${before.body.users?.[0]?.id}`))
    await api.create('/v1/users', { first_name: 'Imported', last_name: 'c' })
    const after = await api.get(path, { 'if-none-match': etagOf(before) })
    expectOk(t, after)
    t.is(after.body.users?.[0]?.last_name, 'b')
  },
)
