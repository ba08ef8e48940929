// The members of a group, from the group's side: listing them, and adding one or many users.
import test, { type ExecutionContext } from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectFaults, expectOk } from '../support/expect.ts'
import { createGroup, createUsers, newGroup } from '../support/records.ts'

const limits = { membershipsPerUser: 3, batchEntries: 10, filters: 3 }
const { api, close } = await openApi({ config: { limits } })
test.after.always(close)

const unknown = Number.MAX_SAFE_INTEGER
const references = (ids: readonly number[]) => ({ users: ids.map(id => ({ id })) })
const fill = async (t: ExecutionContext, group: number, ids: readonly number[]) =>
  expectOk(t, await api.post(`/v1/groups/${group}/users`, references(ids)))
const membersOf = async (group: number) =>
  ((await api.get(`/v1/groups/${group}/users`)).body.users ?? []).map(({ id }) => id)

// Serial: the ETag of a page with groups changes when any group is renamed or deleted.
test.serial('members: GET equals GET /v1/users with the filter, and its links keep the path', async t => {
  const [group, other] = [await createGroup(api), await createGroup(api)]
  const ids = await createUsers(api, 7)
  await fill(t, group, ids.slice(1))
  await fill(t, other, ids.slice(0, 3))
  const path = `/v1/groups/${group}/users`
  const queries = [
    '',
    'records_per_page=2',
    'start_index=2&records_per_page=2',
    'start_index=100',
    'sort=-last_name,id&records_per_page=3',
    'include=groups',
    'include=groups&records_per_page=1&start_index=1',
    `groups[*].id=${other}`,
    `groups[*].id=!${other}&include=groups`,
    `groups[*].id=${group}`,
    `groups[*].id=!${group}`,
    `groups[*].id=${unknown}`,
    `id[gt]=${ids[3]}&first_name=Ada`,
    'last_name=nobody',
  ]
  for (const query of queries) {
    const own = await api.get(`${path}?${query}`)
    expectOk(t, own)
    const filtered = await api.get(`/v1/users?groups[*].id=${group}&${query}`)
    t.is(own.headers.etag, filtered.headers.etag, query)
    const { links, ...meta } = own.body.meta
    const { links: otherLinks, ...otherMeta } = filtered.body.meta
    t.deepEqual({ ...own.body, meta }, { ...filtered.body, meta: otherMeta }, query)
    t.deepEqual(Object.keys(links ?? {}), Object.keys(otherLinks ?? {}))
    for (const link of Object.values(links ?? {})) t.true(link.startsWith(`${path}?`), link)
  }
  t.deepEqual(await membersOf(group), ids.slice(1))

  const walked: (number | undefined)[] = []
  let next: string | undefined = `${path}?sort=-id&records_per_page=4`
  while (next !== undefined) {
    const { users = [], meta }: Awaited<ReturnType<typeof api.get>>['body'] = (await api.get(next)).body
    walked.push(...users.map(({ id }) => id))
    next = meta.links?.next
  }
  t.deepEqual(walked, ids.slice(1).reverse())
})

test('members: GET distinguishes a group without members from an unknown one, after the parameters', async t => {
  const group = await createGroup(api)
  const empty = await api.get(`/v1/groups/${group}/users?include=groups`)
  expectOk(t, empty)
  t.deepEqual(empty.body.users, [])
  t.like(empty.body.meta, { total_records: 0, start_index: 0, records_per_page: 100, links: {} })
  const missing = `/v1/groups/${unknown}/users`
  expectError(t, await api.get(missing), 404, 'group_not_found')
  expectError(t, await api.get('/v1/groups/07/users'), 404, 'group_not_found')
  expectError(t, await api.get(`${missing}?colour=red`), 400, 'unknown_parameter')
  expectError(t, await api.get(`${missing}?include=users`), 400, 'invalid_parameter')
  expectError(t, await api.get(missing, { accept: 'image/png' }), 406, 'not_acceptable')
  await api.delete(`/v1/groups/${group}`)
  expectError(t, await api.get(`/v1/groups/${group}/users`), 404, 'group_not_found')
  expectError(t, await api.post(`/v1/groups/${group}/users`, { id: 1 }), 404, 'group_not_found')
})

test.serial(
  'members: GET is conditional, HEAD mirrors it, and the group is not one of its filters',
  async t => {
    const [group, ids] = [await createGroup(api), await createUsers(api, 2)]
    await fill(t, group, ids)
    const path = `/v1/groups/${group}/users?include=groups`
    const { headers } = await api.get(path)
    const head = await api.send('HEAD', path)
    t.deepEqual([head.status, head.headers.etag, head.text], [200, headers.etag, ''])
    t.is((await api.get(path, { 'if-none-match': headers.etag })).status, 304)
    expectOk(t, await api.patch(`/v1/groups/${group}`, newGroup()))
    t.is((await api.get(path, { 'if-none-match': headers.etag })).status, 200)
    const filters = Array(limits.filters).fill('id[gt]=0').join('&')
    expectOk(t, await api.get(`${path}&${filters}`))
    expectError(t, await api.get(`${path}&${filters}&id[gt]=0`), 400, 'limit_exceeded')
  },
)

test('members: POST returns the user and succeeds again if it is already a member', async t => {
  const [group, [id = 0]] = [await createGroup(api), await createUsers(api, 1)]
  const { body: user } = await api.get(`/v1/users/${id}`)
  const etag = async () => (await api.get(`/v1/users/${id}`)).headers.etag
  const before = await etag()
  const first = await api.post(`/v1/groups/${group}/users`, { id })
  t.deepEqual([first.status, first.body], [200, user])
  const joined = await etag()
  t.not(joined, before)
  // A user can be sent as it was read. Adding it again changes nothing.
  const again = await api.post(`/v1/groups/${group}/users`, { ...user, last_name: 7 })
  t.deepEqual([again.status, again.body], [200, user])
  t.is(await etag(), joined)
  t.deepEqual(await membersOf(group), [id])
  t.like((await api.get(`/v1/users/${id}?include=groups`)).body, { groups: [{ id: group }] })
})

test('members: a batch returns one entry for each input, and created counts the new memberships', async t => {
  const [group, [a = 0, b = 0, c = 0, full = 0]] = [await createGroup(api), await createUsers(api, 4)]
  for (let count = 0; count < limits.membershipsPerUser; count++)
    await fill(t, await createGroup(api), [full])
  await fill(t, group, [b])
  const users = [{ id: c }, { id: unknown }, { id: b }, { id: full }, { id: a }, { id: c }, 'x', { id: '1' }]
  const answer = await api.post(`/v1/groups/${group}/users`, { users, meta: {} })
  expectOk(t, answer)
  const { users: entries = [], meta } = answer.body
  t.deepEqual(
    entries.map(({ id, meta }) => [id, meta.status, meta.code]),
    [
      [c, 200, undefined],
      [unknown, 400, 'user_not_found'],
      [b, 200, undefined],
      [full, 400, 'limit_exceeded'],
      [a, 200, undefined],
      [c, 200, undefined],
      [undefined, 400, 'invalid_body'],
      [undefined, 400, 'invalid_field'],
    ],
  )
  t.is(entries[3]?.meta.message, 'a user can have at most 3 groups')
  t.is(entries[0]?.last_name, (await api.get(`/v1/users/${c}`)).body.last_name)
  t.like(meta, { status: 200, created: 2, failed: 4 })
  t.deepEqual(await membersOf(group), [a, b, c])
  expectError(t, await api.post(`/v1/groups/${group}/users`, { id: full }), 400, 'limit_exceeded')
})

test('members: errors distinguish unknown groups from unknown users', async t => {
  const [group, [id = 0]] = [await createGroup(api), await createUsers(api, 1)]
  const missing = `/v1/groups/${unknown}/users`
  expectError(t, await api.post(`/v1/groups/${group}/users`, { id: unknown }), 404, 'user_not_found')
  expectError(t, await api.post(missing, { id }), 404, 'group_not_found')
  expectError(t, await api.post(missing, { id: unknown }), 404, 'group_not_found')
  expectError(t, await api.post(missing, references([id])), 404, 'group_not_found')
  expectError(t, await api.post(missing, { users: ['x'] }), 404, 'group_not_found')
})

test('members: malformed bodies are rejected as a whole', async t => {
  const [group, [id = 0]] = [await createGroup(api), await createUsers(api, 1)]
  const path = `/v1/groups/${group}/users`
  const rows: [body: unknown, faults: Record<string, string>][] = [
    [{}, { id: 'missing_field' }],
    [{ id: String(id) }, { id: 'invalid_field' }],
    [
      { id, role: 'chair', groups: [] },
      { role: 'unknown_field', groups: 'unknown_field' },
    ],
    [{ users: [] }, { users: 'invalid_batch' }],
    [{ users: id }, { users: 'invalid_batch' }],
    [{ users: [{ id }], id }, { id: 'invalid_batch' }],
    [references(Array(11).fill(id)), { users: 'limit_exceeded' }],
  ]
  for (const [body, faults] of rows) {
    const answer = await api.post(path, body)
    expectError(t, answer, 400, ...Object.values(faults))
    expectFaults(t, answer, faults)
  }
  expectError(t, await api.post(`${path}?sort=id`, { id }), 400, 'unknown_parameter')
  expectError(t, await api.post(path, '[]'), 400, 'invalid_body')
  t.deepEqual(await membersOf(group), [])
  await fill(t, group, Array(10).fill(id))
})

test('members: If-Match compares the version of the group', async t => {
  const [group, [first = 0, ...others]] = [await createGroup(api), await createUsers(api, 3)]
  const path = `/v1/groups/${group}/users`
  const etag = String((await api.get(`/v1/groups/${group}`)).headers.etag)
  expectOk(t, await api.post(path, { id: first }, { 'if-match': etag }))
  // The members of a group are not part of its version.
  expectOk(t, await api.post(path, references(others), { 'if-match': etag }))
  const page = String((await api.get(path)).headers.etag)
  const [extra = 0] = await createUsers(api, 1)
  for (const stale of [page, '"another"', `W/${etag}`])
    expectError(t, await api.post(path, { id: extra }, { 'if-match': stale }), 412, 'precondition_failed')
  expectError(t, await api.post(path, { id: extra }, { 'if-match': 'x' }), 400, 'malformed_request')
  const renamed = await api.patch(`/v1/groups/${group}`, newGroup())
  expectError(t, await api.post(path, { id: extra }, { 'if-match': etag }), 412, 'precondition_failed')
  expectError(t, await api.post(path, { id: extra }, { 'if-none-match': '*' }), 412, 'precondition_failed')
  const missing = `/v1/groups/${unknown}/users`
  expectError(t, await api.post(missing, { id: extra }, { 'if-match': '*' }), 404, 'group_not_found')
  t.deepEqual(await membersOf(group), [first, ...others])
  expectOk(t, await api.post(path, { id: extra }, { 'if-match': String(renamed.headers.etag) }))
  expectOk(t, await api.post(path, { id: extra }, { 'if-match': '*' }))
})

test('members: an Idempotency-Key replays the response of a batch, and belongs to its path', async t => {
  const [group, ids] = [await createGroup(api), await createUsers(api, 3)]
  const path = `/v1/groups/${group}/users`
  const key = { 'idempotency-key': `members ${group}`.replace(' ', '-') }
  const first = await api.post(path, references([...ids, unknown]), key)
  t.like(first.body.meta, { created: 3, failed: 1 })
  expectOk(t, await api.delete(`/v1/users/${ids[0]}/groups/${group}`))
  const again = await api.post(path, references([...ids, unknown]), key)
  t.deepEqual([again.text, again.headers['idempotent-replayed']], [first.text, 'true'])
  t.deepEqual(await membersOf(group), ids.slice(1))
  expectError(t, await api.post(path, references(ids), key), 422, 'idempotency_key_reused')
  const other = `/v1/groups/${await createGroup(api)}/users`
  expectError(t, await api.post(other, references([...ids, unknown]), key), 422, 'idempotency_key_reused')
})

test('members: a single member has no path, and the list supports only DELETE, GET and POST', async t => {
  const [group, [id = 0]] = [await createGroup(api), await createUsers(api, 1)]
  await fill(t, group, [id])
  const path = `/v1/groups/${group}/users`
  expectError(t, await api.delete(`${path}/${id}`), 404, 'route_not_found')
  expectError(t, await api.get(`${path}/`), 404, 'route_not_found')
  for (const answer of [await api.put(path, {}), await api.patch(path, {})]) {
    expectError(t, answer, 405, 'method_not_allowed')
    t.is(answer.headers.allow, 'DELETE, GET, HEAD, OPTIONS, POST')
  }
  t.deepEqual(await membersOf(group), [id])
})
