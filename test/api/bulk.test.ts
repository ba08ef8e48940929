// Changes of many records with one request: PATCH and DELETE of a collection, and DELETE of several memberships.
import assert from 'node:assert/strict'
import test from 'ava'
import fc from 'fast-check'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'
import type { Answer, Body } from '../support/http.ts'
import { createGroup, createGroups, createUser, createUsers, newPerson } from '../support/records.ts'

const { api, close } = await openApi()
test.after.always(close)

const UNKNOWN = 900_000_000

const fieldsOf = ({ meta, ...fields }: Body) => fields
const read = async (id: number) => fieldsOf((await api.get(`/v1/users/${id}`)).body)
const outcomes = ({ body }: Answer, name: 'users' | 'groups' = 'users') =>
  (body[name] ?? []).map(({ id, meta: { status, code } }) => [id, code ?? status])

test('bulk: PATCH changes several records in order, and shows each one after its own step', async t => {
  const [first = 0, second = 0] = await createUsers(api, 2)
  const { last_name } = await read(first)
  const answer = await api.patch('/v1/users', {
    users: [
      { id: first, first_name: 'Augusta' },
      { id: second, last_name: null },
      { id: first, last_name: 'King' },
      { id: second },
    ],
    meta: { status: 200 },
  })
  expectOk(t, answer)
  t.deepEqual(answer.body.users, [
    { id: first, first_name: 'Augusta', last_name, meta: { status: 200 } },
    { id: second, first_name: 'Ada', meta: { status: 200 } },
    { id: first, first_name: 'Augusta', last_name: 'King', meta: { status: 200 } },
    { id: second, first_name: 'Ada', meta: { status: 200 } },
  ])
  t.deepEqual(answer.body.meta, { status: 200, message: '4 of 4 updated, 0 failed', updated: 4, failed: 0 })
  t.deepEqual(await read(first), { id: first, first_name: 'Augusta', last_name: 'King' })
})

test('bulk: PATCH of an empty change returns the record and leaves its version', async t => {
  const id = await createUser(api)
  const { headers, body } = await api.get(`/v1/users/${id}`)
  const answer = await api.patch('/v1/users', { users: [{ id }, { id, meta: { status: 200 } }] })
  t.deepEqual(answer.body.users, [body, body])
  t.is(answer.body.meta.updated, 2)
  t.is((await api.get(`/v1/users/${id}`)).headers.etag, headers.etag)
})

test('bulk: a bad entry of a PATCH has the code of the single PATCH and its id, and leaves the others', async t => {
  const [taken = 0, id = 0, good = 0] = await createUsers(api, 3)
  const name = fieldsOf((await api.get(`/v1/users/${taken}`)).body)
  const cases: [entry: unknown, code: string, id?: number][] = [
    [{ id: UNKNOWN, first_name: 'x' }, 'user_not_found', UNKNOWN],
    [{ id: UNKNOWN }, 'user_not_found', UNKNOWN],
    [{ ...name, id }, 'user_exists', id],
    [{ id, first_name: '' }, 'invalid_field', id],
    [{ id, first_name: 5 }, 'invalid_field', id],
    [{ id, groups: [] }, 'invalid_field', id],
    [{ id, age: 1 }, 'unknown_field', id],
    [{ id: UNKNOWN, age: 1 }, 'unknown_field', UNKNOWN],
    [{ first_name: 'x' }, 'missing_field'],
    [{ id: null }, 'missing_field'],
    ...['1', 0, -1, 1.5, 2 ** 53, true, [], {}].map((id): [unknown, string] => [{ id }, 'invalid_field']),
    ...[null, 5, 'x', []].map((entry): [unknown, string] => [entry, 'invalid_body']),
  ]
  const before = await read(id)
  const users = [...cases.map(([entry]) => entry), { id: good, first_name: 'Good' }]
  const answer = await api.patch('/v1/users', { users })
  expectOk(t, answer)
  t.deepEqual(outcomes(answer), [...cases.map(([, code, id]) => [id, code]), [good, 200]])
  t.like(answer.body.meta, { updated: 1, failed: cases.length })
  for (const { meta, ...fields } of answer.body.users?.slice(0, -1) ?? []) {
    t.deepEqual(Object.keys(fields), fields.id === undefined ? [] : ['id'])
    t.is(meta.status, 400)
    t.truthy(meta.message)
  }
  t.deepEqual(await read(id), before)
  t.is((await read(good)).first_name, 'Good')
})

test('bulk: PATCH of groups: a name is required and unique', async t => {
  const [first, second] = [await createGroup(api), await createGroup(api)]
  const { name } = (await api.get(`/v1/groups/${first}`)).body
  const groups = [
    { id: second, name },
    { id: second, name: null },
    { id: first, name: `${name} renamed` },
  ]
  const answer = await api.patch('/v1/groups', { groups: [...groups, { id: second, name }] })
  t.deepEqual(outcomes(answer, 'groups'), [
    [second, 'group_exists'],
    [second, 'missing_field'],
    [first, 200],
    [second, 200],
  ])
})

test('bulk: PATCH looks at the order of entries, where a name becomes free', async t => {
  const [a = 0, b = 0] = await createUsers(api, 2)
  const [nameA, nameB] = [await read(a), await read(b)]
  const free = newPerson()
  const late = await api.patch('/v1/users', {
    users: [
      { ...nameB, id: a },
      { ...free, id: b },
    ],
  })
  t.deepEqual(outcomes(late), [
    [a, 'user_exists'],
    [b, 200],
  ])
  const early = await api.patch('/v1/users', {
    users: [
      { ...nameB, id: a },
      { ...nameA, id: b },
    ],
  })
  t.deepEqual(outcomes(early), [
    [a, 200],
    [b, 200],
  ])
})

test('bulk: PATCH rejects a body that is no list as a whole', async t => {
  const id = await createUser(api)
  const before = await read(id)
  const entry = { id, first_name: 'Changed' }
  const tooMany = Array.from({ length: 1001 }, () => entry)
  for (const [body, code] of [
    [{}, 'invalid_batch'],
    [entry, 'invalid_batch'],
    [{ groups: [entry] }, 'invalid_batch'],
    [{ users: [] }, 'invalid_batch'],
    [{ users: entry }, 'invalid_batch'],
    [{ users: [entry], colour: 'red' }, 'invalid_batch'],
    [{ users: tooMany }, 'limit_exceeded'],
    [[entry], 'invalid_body'],
    ['{', 'malformed_json'],
  ] as const)
    expectError(t, await api.patch('/v1/users', body), 400, code)
  expectError(t, await api.patch('/v1/users?id=1', { users: [entry] }), 400, 'unknown_parameter')
  const text = JSON.stringify({ users: [entry] })
  const plain = await api.send('PATCH', '/v1/users', { 'content-type': 'text/plain' }, text)
  expectError(t, plain, 415, 'unsupported_media_type')
  expectError(
    t,
    await api.patch('/v1/users', { users: [entry] }, { accept: 'image/png' }),
    406,
    'not_acceptable',
  )
  t.deepEqual(await read(id), before)
})

test('bulk: If-Match * matches a collection, any other tag is 412 and changes nothing', async t => {
  const id = await createUser(api)
  const { etag = '' } = (await api.get(`/v1/users/${id}`)).headers
  const before = await read(id)
  const users = [{ id, first_name: 'Matched' }]
  const failing = [{ 'if-match': etag }, { 'if-match': '"x"' }, { 'if-none-match': '*' }]
  for (const headers of failing) {
    for (const answer of [
      await api.patch('/v1/users', { users }, headers),
      await api.delete(`/v1/users?id=${id}`, headers),
    ]) {
      expectError(t, answer, 412, 'precondition_failed')
      t.regex(answer.text, /the collection; \* always matches it/)
    }
  }
  expectError(t, await api.patch('/v1/users', {}, { 'if-match': '"x"' }), 400, 'invalid_batch')
  const malformed = { 'if-match': 'x' }
  expectError(t, await api.patch('/v1/users', { users }, malformed), 400, 'malformed_request')
  expectError(t, await api.delete(`/v1/users?id=${id}`, malformed), 400, 'malformed_request')
  t.deepEqual(await read(id), before)
  expectOk(t, await api.patch('/v1/users', { users }, { 'if-match': '*' }))
  expectOk(t, await api.delete(`/v1/users?id=${id}`, { 'if-match': '*' }))
})

test('bulk: PATCH and DELETE take no Idempotency-Key, and can be repeated', async t => {
  const id = await createUser(api)
  const key = { 'idempotency-key': `bulk ${id}` }
  const users = [{ id, first_name: 'Repeated' }]
  const first = await api.patch('/v1/users', { users }, key)
  const second = await api.patch('/v1/users', { users }, key)
  t.is(second.text, first.text)
  t.is(second.headers['idempotent-replayed'], undefined)
  expectOk(t, await api.delete(`/v1/users?id=${id}`, key))
  const again = await api.delete(`/v1/users?id=${id}`, key)
  t.deepEqual(outcomes(again), [[id, 'user_not_found']])
})

test('bulk: DELETE deletes the records of a list in its order', async t => {
  const [a = 0, b = 0, c = 0, d = 0] = await createUsers(api, 4)
  const group = await createGroup(api)
  await api.post(`/v1/groups/${group}/users`, { users: [{ id: a }, { id: d }] })
  const answer = await api.delete(`/v1/users?id[in]=${c},${UNKNOWN},${a}&id[in]=${b}&id%5Bin%5D=${c}`)
  expectOk(t, answer)
  t.deepEqual(outcomes(answer), [
    [c, 200],
    [UNKNOWN, 'user_not_found'],
    [a, 200],
    [b, 200],
    [c, 'user_not_found'],
  ])
  t.deepEqual(answer.body.meta, { status: 200, message: '3 of 5 deleted, 2 failed', deleted: 3, failed: 2 })
  for (const { meta, ...fields } of answer.body.users ?? []) {
    t.deepEqual(Object.keys(fields), ['id'])
    t.truthy(meta.message)
  }
  for (const id of [a, b, c]) expectError(t, await api.get(`/v1/users/${id}`), 404, 'user_not_found')
  t.deepEqual(
    (await api.get(`/v1/groups/${group}/users`)).body.users?.map(({ id }) => id),
    [d],
  )
})

test('bulk: DELETE of groups removes their members and leaves the users', async t => {
  const [first, second, user] = [await createGroup(api), await createGroup(api), await createUser(api)]
  await api.post(`/v1/users/${user}/groups`, { groups: [{ id: first }, { id: second }] })
  const answer = await api.delete(`/v1/groups?id[in]=${first},${second},${first}`)
  t.deepEqual(outcomes(answer, 'groups'), [
    [first, 200],
    [second, 200],
    [first, 'group_not_found'],
  ])
  t.deepEqual((await api.get(`/v1/users/${user}?include=groups`)).body.groups, [])
})

const faultyQueries: [query: string, code: string][] = [
  ['', 'invalid_parameter'],
  ['?', 'invalid_parameter'],
  ['?id[in]=', 'invalid_parameter'],
  ['?id=', 'invalid_parameter'],
  ['?id=abc', 'invalid_parameter'],
  ['?id=007', 'invalid_parameter'],
  ['?id=ID,ID', 'invalid_parameter'],
  ['?id=!1', 'invalid_parameter'],
  ['?id[in]=!1', 'invalid_parameter'],
  ['?id[in]=ID,', 'invalid_parameter'],
  ['?id[in]=ID,0', 'invalid_parameter'],
  ['?id=ID&id=ID', 'invalid_parameter'],
  ['?id[in]=ID,1&id=ID', 'invalid_parameter'],
  ['?id=ID&id%5Bin%5D=ID', 'invalid_parameter'],
  ['?id[in]=ID,%ff', 'invalid_parameter'],
  ['?id[in]=9007199254740992', 'invalid_parameter'],
  ['?id[gt]=1', 'unknown_parameter'],
  ['?last_name=x', 'unknown_parameter'],
  ['?id=ID&last_name=x', 'unknown_parameter'],
  ['?id=ID&include=groups', 'unknown_parameter'],
  ['?id=ID&records_per_page=1', 'unknown_parameter'],
  [`?id[in]=ID${',1'.repeat(1000)}`, 'limit_exceeded'],
]

test('bulk: a faulty query of a DELETE deletes nothing', async t => {
  const [user, group] = [await createUser(api), await createGroup(api)]
  await api.post(`/v1/users/${user}/groups`, { id: group })
  for (const [query, code] of faultyQueries)
    for (const [path, id] of [
      ['/v1/users', user],
      ['/v1/groups', group],
      [`/v1/users/${user}/groups`, group],
      [`/v1/groups/${group}/users`, user],
    ] as const) {
      const answer = await api.delete(path + query.replaceAll('ID', String(id)))
      expectError(t, answer, 400, code)
    }
  for (const query of ['id[in]=%ff', 'id%5Bin%5D=%ff', 'id=%ff']) {
    const { body } = await api.delete(`/v1/users?${query}`)
    t.deepEqual(
      body.meta?.errors?.map(({ parameter }) => parameter),
      [query],
    )
  }
  const { body } = await api.delete('/v1/users?a=%ff')
  t.deepEqual(
    body.meta?.errors?.map(({ parameter }) => parameter),
    ['a=%ff', 'id[in]'],
  )
  expectError(t, await api.delete(`/v1/users?id=${user}`, { accept: 'image/png' }), 406, 'not_acceptable')
  t.deepEqual(
    (await api.get(`/v1/users/${user}?include=groups`)).body.groups?.map(({ id }) => id),
    [group],
  )
})

test('bulk: DELETE of memberships, from both sides', async t => {
  const [user, other] = [await createUser(api), await createUser(api)]
  const [a, b, c] = [await createGroup(api), await createGroup(api), await createGroup(api)]
  for (const id of [user, other]) await api.post(`/v1/users/${id}/groups`, { groups: [{ id: a }, { id: b }] })
  const path = `/v1/users/${user}/groups`
  const { etag } = (await api.get(`/v1/users/${user}`)).headers
  const answer = await api.delete(`${path}?id[in]=${b},${c},${b},${UNKNOWN}`)
  expectOk(t, answer)
  t.deepEqual(outcomes(answer, 'groups'), [
    [b, 200],
    [c, 'membership_not_found'],
    [b, 'membership_not_found'],
    [UNKNOWN, 'membership_not_found'],
  ])
  t.deepEqual(answer.body.meta, { status: 200, message: '1 of 4 deleted, 3 failed', deleted: 1, failed: 3 })
  t.is(answer.body.groups?.[0]?.meta.message, `user ${user} removed from group ${b}`)
  t.not((await api.get(`/v1/users/${user}`)).headers.etag, etag)
  t.deepEqual(
    (await api.get(path)).body.groups?.map(({ id }) => id),
    [a],
  )

  const members = await api.delete(`/v1/groups/${a}/users?id[in]=${other},${UNKNOWN},${user},${other}`)
  t.deepEqual(outcomes(members), [
    [other, 200],
    [UNKNOWN, 'membership_not_found'],
    [user, 200],
    [other, 'membership_not_found'],
  ])
  t.is(members.body.users?.[0]?.meta.message, `user ${other} removed from group ${a}`)
  t.is(members.body.users?.[1]?.meta.message, `user ${UNKNOWN} is not in group ${a}`)
  t.is(await api.count(`/v1/groups/${a}/users`), 0)
  t.is(await api.count(`/v1/groups/${b}/users`), 1)
  for (const [unknown, code] of [
    [`/v1/users/${UNKNOWN}/groups?id=1`, 'user_not_found'],
    ['/v1/users/abc/groups?id=1', 'user_not_found'],
    [`/v1/groups/${UNKNOWN}/users?id=1`, 'group_not_found'],
  ] as const)
    expectError(t, await api.delete(unknown), 404, code)
})

test('bulk: DELETE of memberships compares If-Match with the version of the record in the path', async t => {
  const [user, group] = [await createUser(api), await createGroup(api)]
  await api.post(`/v1/users/${user}/groups`, { id: group })
  for (const [record, list, id] of [
    [`/v1/users/${user}`, 'groups', group],
    [`/v1/groups/${group}`, 'users', user],
  ] as const) {
    await api.post(`/v1/users/${user}/groups`, { id: group })
    const path = `${record}/${list}?id=${id}`
    expectError(t, await api.delete(path, { 'if-match': '"x"' }), 412, 'precondition_failed')
    const { etag = '' } = (await api.get(record)).headers
    const answer = await api.delete(path, { 'if-match': etag })
    t.deepEqual(outcomes(answer, list), [[id, 200]])
  }
})

test.serial('bulk: 1000 entries: a PATCH, a DELETE of memberships and a DELETE of users', async t => {
  const ids = await createUsers(api, 1000)
  t.is(ids.length, 1000)
  const group = await createGroup(api)
  const others = [await createGroup(api), await createGroup(api), await createGroup(api)]
  const users = ids.map(id => ({ id }))
  for (const id of [group, ...others]) await api.post(`/v1/groups/${id}/users`, { users })
  const taken = newPerson()
  await api.create('/v1/users', taken)
  const changes = ids.map((id, index) => (index % 100 === 7 ? { id, ...taken } : { id, first_name: 'Many' }))
  const changed = await api.patch('/v1/users', { users: changes })
  t.like(changed.body.meta, { updated: 990, failed: 10 })
  t.is(await api.count('/v1/users?first_name=Many'), 990)

  const left = ids.slice(0, 500)
  const removed = await api.delete(`/v1/groups/${group}/users?id[in]=${left}`)
  t.like(removed.body.meta, { deleted: 500, failed: 0 })
  t.is(await api.count(`/v1/groups/${group}/users`), 500)

  const before = await api.count('/v1/users')
  const answer = await api.delete(`/v1/users?id[in]=${ids}`)
  expectOk(t, answer)
  t.deepEqual(
    outcomes(answer),
    ids.map(id => [id, 200]),
  )
  t.is(await api.count('/v1/users'), before - 1000)
  for (const id of [group, ...others]) t.is(await api.count(`/v1/groups/${id}/users`), 0)
})

test.serial('bulk: a DELETE of 1000 groups with 3000 memberships', async t => {
  const users = await createUsers(api, 3)
  const ids = await createGroups(api, 1000)
  t.is(ids.length, 1000)
  for (const user of users) {
    const joined = await api.post(`/v1/users/${user}/groups`, { groups: ids.map(id => ({ id })) })
    t.like(joined.body.meta, { created: 1000, failed: 0 })
  }
  const answer = await api.delete(`/v1/groups?id[in]=${ids}`)
  t.deepEqual(
    outcomes(answer, 'groups'),
    ids.map(id => [id, 200]),
  )
  for (const user of users) t.is(await api.count(`/v1/users/${user}/groups`), 0)
})

test.serial('bulk: generated PATCHes have the results of single PATCHes in their order', async t => {
  const COUNT = 5
  const value = fc.option(fc.constantFrom('bulk', 'Bulk', 'b\u00falk', ''))
  const entry = fc.record({
    /** One of them is unknown. */
    target: fc.nat(COUNT),
    fields: fc.record({ first_name: value, last_name: value }, { requiredKeys: [] }),
  })
  const listOf = async (marker: string) => {
    const ids = await createUsers(api, COUNT)
    for (const [index, id] of ids.entries())
      await api.put(`/v1/users/${id}`, { first_name: `${marker} ${index}`, last_name: 'x' })
    return ids
  }
  const [together, apart] = [await listOf('together'), await listOf('apart')]
  const property = fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 20 }), async entries => {
    const start = () => ({
      users: [...together, ...apart].map(id => ({ id, first_name: null, last_name: null })),
    })
    const changesOf = (ids: readonly number[]) =>
      entries.map(({ target, fields }) => ({ id: ids[target] ?? UNKNOWN, ...fields }))
    const shown = (ids: readonly number[]) => (users: readonly Body[] | undefined) =>
      users?.map(({ id = 0, meta, ...fields }) => [ids.indexOf(id), fields, meta.code])

    await api.patch('/v1/users', start())
    const expected: Body[] = []
    for (const change of changesOf(apart)) {
      const { body, status } = await api.patch(`/v1/users/${change.id}`, change)
      expected.push(status === 200 ? body : { ...body, id: change.id })
    }
    const stored = []
    for (const id of apart) stored.push({ ...(await read(id)), id: 0 })

    await api.patch('/v1/users', start())
    const { body } = await api.patch('/v1/users', { users: changesOf(together) })
    assert.deepEqual(shown(together)(body.users), shown(apart)(expected))
    const found = []
    for (const id of together) found.push({ ...(await read(id)), id: 0 })
    assert.deepEqual(found, stored)
  })
  await fc.assert(property, { numRuns: 60, includeErrorInReport: true })
  t.pass()
})
