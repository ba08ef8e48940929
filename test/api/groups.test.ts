// Groups: they behave like users, but have a single field, a required and unique name.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectFaults, expectOk } from '../support/expect.ts'

const { api, close } = await openApi()
test.after.always(close)

let sequence = 0
const unique = () => `Group ${++sequence}`

test('groups: POST returns the created group and its Location, and GET returns the same group', async t => {
  const fields = { name: unique() }
  const created = await api.post('/v1/groups', fields)
  expectOk(t, created)
  const { id, meta, ...rest } = created.body
  t.true(Number.isSafeInteger(id) && Number(id) > 0)
  t.deepEqual(rest, fields)
  const location = new URL(created.headers.location ?? '', api.url)
  t.is(location.pathname, `/v1/groups/${id}`)
  const read = await api.get(location.pathname)
  expectOk(t, read)
  t.deepEqual({ ...read.body, meta }, created.body)
})

test('groups: PUT and PATCH change the name, with or without id and meta in the body', async t => {
  const id = await api.create('/v1/groups', { name: unique() })
  for (const method of ['put', 'patch'] as const)
    for (const extra of [{}, { id }, { id, meta: { status: 200 } }]) {
      const name = unique()
      const answer = await api[method](`/v1/groups/${id}`, { name, ...extra })
      expectOk(t, answer)
      for (const { body } of [answer, await api.get(`/v1/groups/${id}`)]) {
        const { meta, ...group } = body
        t.deepEqual(group, { id, name })
      }
    }
})

test('groups: PATCH {} changes nothing', async t => {
  const name = unique()
  const id = await api.create('/v1/groups', { name })
  const answer = await api.patch(`/v1/groups/${id}`, {})
  expectOk(t, answer)
  t.is(answer.body.name, name)
})

const faults: [method: 'post' | 'put' | 'patch', body: object, faults: Record<string, string>][] = [
  ['post', {}, { name: 'missing_field' }],
  ['post', { name: null }, { name: 'missing_field' }],
  ['post', { name: '' }, { name: 'invalid_field' }],
  ['post', { name: '\u2003' }, { name: 'invalid_field' }],
  ['post', { name: 'a\u0000b' }, { name: 'invalid_field' }],
  ['post', { name: 5 }, { name: 'invalid_field' }],
  ['post', { id: 5, name: 'a' }, { id: 'invalid_field' }],
  ['post', { first_name: 'a' }, { first_name: 'unknown_field', name: 'missing_field' }],
  ['put', {}, { name: 'missing_field' }],
  ['put', { name: null }, { name: 'missing_field' }],
  ['put', { name: ['a'] }, { name: 'invalid_field' }],
  ['put', { name: 'a', id: 9e15 }, { id: 'id_mismatch' }],
  ['patch', { name: null }, { name: 'missing_field' }],
  ['patch', { name: ' ' }, { name: 'invalid_field' }],
  ['patch', { name: false, colour: 1 }, { name: 'invalid_field', colour: 'unknown_field' }],
  ['patch', { id: 9e15 }, { id: 'id_mismatch' }],
]
test('groups: invalid bodies are rejected and store nothing', async t => {
  const name = unique()
  const id = await api.create('/v1/groups', { name })
  for (const [method, body, expected] of faults) {
    const answer = await api[method](method === 'post' ? '/v1/groups' : `/v1/groups/${id}`, body)
    expectError(t, answer, 400, ...Object.values(expected))
    expectFaults(t, answer, expected)
  }
  t.is((await api.get(`/v1/groups/${id}`)).body.name, name)
  const answer = await api.post('/v1/groups', { name: 'a'.repeat(256) })
  expectError(t, answer, 400, 'invalid_field', 'limit_exceeded')
  for (const text of ['[]', '1', 'null', '"name"'])
    expectError(t, await api.post('/v1/groups', text), 400, 'invalid_body')
})

test('groups: POST, PUT and PATCH reject a name that exists', async t => {
  const [name, other] = [unique(), unique()]
  const id = await api.create('/v1/groups', { name })
  const second = await api.create('/v1/groups', { name: other })
  expectError(t, await api.post('/v1/groups', { name }), 409, 'group_exists')
  expectError(t, await api.put(`/v1/groups/${second}`, { name }), 409, 'group_exists')
  expectError(t, await api.patch(`/v1/groups/${second}`, { name }), 409, 'group_exists')
  t.is((await api.get(`/v1/groups/${second}`)).body.name, other)
  expectOk(t, await api.put(`/v1/groups/${id}`, { name }))
  expectOk(t, await api.delete(`/v1/groups/${id}`))
  expectOk(t, await api.patch(`/v1/groups/${second}`, { name }))
})

test('groups: DELETE removes the memberships and keeps the users', async t => {
  const group = await api.create('/v1/groups', { name: unique() })
  const kept = await api.create('/v1/groups', { name: unique() })
  const user = await api.create('/v1/users', { first_name: 'Ada', last_name: unique() })
  await api.post(`/v1/users/${user}/groups`, { groups: [{ id: group }, { id: kept }] })
  const answer = await api.delete(`/v1/groups/${group}`)
  expectOk(t, answer)
  t.deepEqual(Object.keys(answer.body), ['meta'])
  t.truthy(answer.body.meta.message)
  expectError(t, await api.get(`/v1/groups/${group}`), 404, 'group_not_found')
  expectError(t, await api.delete(`/v1/groups/${group}`), 404, 'group_not_found')
  const { groups } = (await api.get(`/v1/users/${user}?include=groups`)).body
  t.deepEqual(
    groups?.map(({ id }) => id),
    [kept],
  )
})

test('groups: unknown ids are group_not_found, and PUT does not create a group', async t => {
  const deleted = await api.create('/v1/groups', { name: unique() })
  await api.delete(`/v1/groups/${deleted}`)
  for (const id of [deleted, Number.MAX_SAFE_INTEGER]) {
    const path = `/v1/groups/${id}`
    expectError(t, await api.put(path, { name: unique() }), 404, 'group_not_found')
    expectError(t, await api.patch(path, {}), 404, 'group_not_found')
    expectError(t, await api.delete(path), 404, 'group_not_found')
    expectError(t, await api.get(path), 404, 'group_not_found')
  }
  for (const id of ['0', '007', 'abc', '9007199254740992'])
    expectError(t, await api.get(`/v1/groups/${id}`), 404, 'group_not_found', 'route_not_found')
})

test('groups: include=users is not supported', async t => {
  const id = await api.create('/v1/groups', { name: unique() })
  for (const path of ['/v1/groups?include=users', `/v1/groups/${id}?include=users`])
    expectError(t, await api.get(path), 400, 'invalid_parameter', 'unknown_parameter')
})

test.serial(
  'groups: a batch creates entries in order, and only the first of several equal names',
  async t => {
    const [a, b, taken] = [unique(), unique(), unique()]
    await api.create('/v1/groups', { name: taken })
    const answer = await api.post('/v1/groups', {
      groups: [{ name: a }, { name: taken }, 5, { name: b }, { name: a }],
    })
    expectOk(t, answer)
    const { groups = [], meta } = answer.body
    t.deepEqual(
      groups.map(group => [group.name, group.meta.status, group.meta.code, 'id' in group]),
      [
        [a, 200, undefined, true],
        [taken, 400, 'group_exists', false],
        [undefined, 400, groups[2]?.meta.code, false],
        [b, 200, undefined, true],
        [a, 400, 'group_exists', false],
      ],
    )
    t.is(meta.created, 2)
    t.is(meta.failed, 3)
    t.is(await api.count(`/v1/groups?name[in]=${encodeURIComponent(`${a},${b}`)}`), 2)
  },
)

test.serial('groups: the collection supports the same filters, sorting and paging as users', async t => {
  for (const { id } of (await api.get('/v1/groups')).body.groups ?? []) await api.delete(`/v1/groups/${id}`)
  for (const name of ['beta', 'Alpha', 'alpha', '!beta']) await api.create('/v1/groups', { name })
  const [first = 0, second = 0] = ((await api.get('/v1/groups')).body.groups ?? []).map(({ id }) =>
    Number(id),
  )
  const rows: [query: string, names: string[]][] = [
    [`id=${second}`, ['Alpha']],
    [`id=!${second}`, ['beta', 'alpha', '!beta']],
    [`id[gt]=${second}`, ['alpha', '!beta']],
    [`id[lt]=${second}`, ['beta']],
    [`id[in]=${second},${first}`, ['beta', 'Alpha']],
    ['', ['beta', 'Alpha', 'alpha', '!beta']],
    ['name=alpha', ['alpha']],
    ['name=!alpha', ['beta', 'Alpha', '!beta']],
    ['name=\\!beta', ['!beta']],
    ['name=!!beta', ['beta', 'Alpha', 'alpha']],
    ['name[prefix]=al', ['alpha']],
    ['name[in]=beta,Alpha,none', ['beta', 'Alpha']],
    ['name[exists]=true', ['beta', 'Alpha', 'alpha', '!beta']],
    ['name[exists]=false', []],
    ['sort=name', ['!beta', 'Alpha', 'alpha', 'beta']],
    ['sort=-name&start_index=1&records_per_page=2', ['alpha', 'Alpha']],
    ['sort=-id&name=!beta', ['!beta', 'alpha', 'Alpha']],
  ]
  for (const [query, names] of rows) {
    const answer = await api.get(`/v1/groups?${query}`)
    expectOk(t, answer)
    t.deepEqual(
      answer.body.groups?.map(({ name }) => name),
      names,
      query,
    )
  }
  expectError(t, await api.get('/v1/groups?first_name=a'), 400, 'unknown_parameter')
  expectError(t, await api.get('/v1/groups?groups[*].name=a'), 400, 'unknown_parameter')
})
