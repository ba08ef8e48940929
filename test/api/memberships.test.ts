// Memberships: adding a user to one or more groups, listing and removing.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectFaults, expectOk } from '../support/expect.ts'
import { createGroup, createUser, newGroup } from '../support/records.ts'
import { startService } from '../support/service.ts'

const membershipsPerUser = 5
const { service, api, openClient, close } = await openApi({
  config: { limits: { membershipsPerUser, batchEntries: 10, recordsPerPage: 3 } },
})
test.after.always(close)

/** Creates groups with one request. Returns their names, too. */
const createNamedGroups = async (count: number) => {
  const answer = await api.post('/v1/groups', { groups: Array.from({ length: count }, newGroup) })
  const { groups = [] } = answer.body
  return groups.map(({ id, name }) => ({ id: Number(id), name }))
}
const groupsOf = async (user: number) => {
  const { groups = [] } = (await api.get(`/v1/users/${user}/groups`)).body
  return groups.map(({ id }) => id)
}
const unknown = Number.MAX_SAFE_INTEGER

test('memberships: POST returns the group and succeeds again if the user is already a member', async t => {
  const [user, group] = [await createUser(api), await createGroup(api)]
  const { name } = (await api.get(`/v1/groups/${group}`)).body
  for (let round = 0; round < 2; round++) {
    const answer = await api.post(`/v1/users/${user}/groups`, { id: group })
    expectOk(t, answer)
    const { meta, ...rest } = answer.body
    t.deepEqual(rest, { id: group, name })
  }
  t.deepEqual(await groupsOf(user), [group])
})

test('memberships: name and meta are ignored, so a group can be sent as it was read', async t => {
  const [user, group] = [await createUser(api), await createGroup(api)]
  const { body } = await api.get(`/v1/groups/${group}`)
  expectOk(t, await api.post(`/v1/users/${user}/groups`, body))
  expectOk(t, await api.post(`/v1/users/${user}/groups`, { id: group, name: 'another', meta: 5 }))
  const batch = await api.post(`/v1/users/${user}/groups`, {
    groups: [{ ...body, name: 7 }],
    meta: body.meta,
  })
  expectOk(t, batch)
  t.is(batch.body.groups?.[0]?.name, body.name)
})

test('memberships: a batch returns one entry for each input, and created counts the new memberships', async t => {
  const [user, [a, b, c]] = [await createUser(api), await createNamedGroups(3)]
  await api.post(`/v1/users/${user}/groups`, { id: b?.id })
  const entries = [
    { id: c?.id },
    { id: unknown },
    { id: b?.id },
    { id: a?.id },
    { id: c?.id },
    'x',
    { id: '1' },
  ]
  const answer = await api.post(`/v1/users/${user}/groups`, { groups: entries })
  expectOk(t, answer)
  const { groups = [], meta } = answer.body
  t.is(groups.length, entries.length)
  t.deepEqual(
    groups.map(({ meta, ...group }) => [meta.status, group]),
    [
      [200, c],
      [400, { id: unknown }],
      [200, b],
      [200, a],
      [200, c],
      [400, {}],
      [400, {}],
    ],
  )
  t.is(groups[1]?.meta.code, 'group_not_found')
  for (const { meta } of groups)
    t.is(meta.status === 200, meta.message === undefined && meta.code === undefined)
  t.is(meta.created, 2)
  t.is(meta.failed, 3)
  t.truthy(meta.message)
  t.deepEqual(await groupsOf(user), [a?.id, b?.id, c?.id])
})

test('memberships: a malformed batch is rejected as a whole', async t => {
  const [user, group] = [await createUser(api), await createGroup(api)]
  const entry = { id: group }
  const rows: [body: object, ...codes: string[]][] = [
    [{ groups: [] }, 'invalid_batch'],
    [{ groups: {} }, 'invalid_batch'],
    [{ groups: null }, 'invalid_batch'],
    [{ groups: group }, 'invalid_batch'],
    [{ groups: [entry], id: group }, 'invalid_batch', 'unknown_field'],
    [{ groups: [entry], users: [] }, 'invalid_batch', 'unknown_field'],
    [{ groups: Array(11).fill(entry) }, 'limit_exceeded'],
  ]
  for (const [body, ...codes] of rows)
    expectError(t, await api.post(`/v1/users/${user}/groups`, body), 400, ...codes)
  t.deepEqual(await groupsOf(user), [])
  expectOk(t, await api.post(`/v1/users/${user}/groups`, { groups: Array(10).fill(entry) }))
})

test('memberships: invalid bodies are rejected and store nothing', async t => {
  const [user, group] = [await createUser(api), await createGroup(api)]
  const rows: [body: object, faults: Record<string, string>][] = [
    [{}, { id: 'missing_field' }],
    [{ id: null }, { id: 'missing_field' }],
    [{ id: String(group) }, { id: 'invalid_field' }],
    [{ id: 1.5 }, { id: 'invalid_field' }],
    [{ id: [group] }, { id: 'invalid_field' }],
    [{ id: true }, { id: 'invalid_field' }],
    [{ id: group, role: 'chair' }, { role: 'unknown_field' }],
    [{ role: 'chair' }, { id: 'missing_field', role: 'unknown_field' }],
  ]
  for (const [body, faults] of rows) {
    const answer = await api.post(`/v1/users/${user}/groups`, body)
    expectError(t, answer, 400, ...Object.values(faults))
    expectFaults(t, answer, faults)
  }
  for (const text of ['[]', 'null', String(group)])
    expectError(t, await api.post(`/v1/users/${user}/groups`, text), 400, 'invalid_body')
  t.deepEqual(await groupsOf(user), [])
})

test('memberships: errors distinguish unknown users from unknown groups', async t => {
  const [user, group] = [await createUser(api), await createGroup(api)]
  expectError(t, await api.post(`/v1/users/${user}/groups`, { id: unknown }), 404, 'group_not_found')
  expectError(t, await api.post(`/v1/users/${unknown}/groups`, { id: group }), 404, 'user_not_found')
  expectError(
    t,
    await api.post(`/v1/users/${unknown}/groups`, { groups: [{ id: group }] }),
    404,
    'user_not_found',
  )
  expectError(t, await api.get(`/v1/users/${unknown}/groups`), 404, 'user_not_found')
  expectError(t, await api.delete(`/v1/users/${unknown}/groups/${group}`), 404, 'user_not_found')
  expectError(t, await api.delete(`/v1/users/${unknown}/groups/${unknown}`), 404, 'user_not_found')
  expectError(t, await api.delete(`/v1/users/${user}/groups/${group}`), 404, 'membership_not_found')
  expectError(t, await api.delete(`/v1/users/${user}/groups/${unknown}`), 404, 'membership_not_found')
})

test('memberships: DELETE removes one membership and keeps the group and its other members', async t => {
  const [user, friend, [a, b]] = [await createUser(api), await createUser(api), await createNamedGroups(2)]
  for (const id of [user, friend]) await api.post(`/v1/users/${id}/groups`, { groups: [a, b] })
  const answer = await api.delete(`/v1/users/${user}/groups/${a?.id}`)
  expectOk(t, answer)
  t.deepEqual(Object.keys(answer.body), ['meta'])
  t.truthy(answer.body.meta.message)
  t.deepEqual(await groupsOf(user), [b?.id])
  t.deepEqual(await groupsOf(friend), [a?.id, b?.id])
  expectOk(t, await api.get(`/v1/groups/${a?.id}`))
  expectError(t, await api.delete(`/v1/users/${user}/groups/${a?.id}`), 404, 'membership_not_found')
})

test('memberships: deleting a user removes its memberships', async t => {
  const [user, group] = [await createUser(api), await createGroup(api)]
  await api.post(`/v1/users/${user}/groups`, { id: group })
  expectOk(t, await api.delete(`/v1/users/${user}`))
  t.is(await api.count(`/v1/users?groups[*].id=${group}`), 0)
  expectOk(t, await api.get(`/v1/groups/${group}`))
})

test('memberships: GET lists all groups sorted by id, or one page of them', async t => {
  const [user, groups] = [await createUser(api), await createNamedGroups(4)]
  await api.post(`/v1/users/${user}/groups`, { groups: groups.toReversed() })
  const path = `/v1/users/${user}/groups`
  const rows: [query: string, expected: object[], start: number, perPage: number][] = [
    ['', groups, 0, membershipsPerUser],
    ['?start_index=1', groups.slice(1), 1, 0],
    ['?records_per_page=2', groups.slice(0, 2), 0, 2],
    ['?start_index=1&records_per_page=2', groups.slice(1, 3), 1, 2],
    ['?start_index=4&records_per_page=2', [], 4, 2],
    ['?start_index=400', [], 400, 0],
  ]
  for (const [query, expected, start, perPage] of rows) {
    const answer = await api.get(path + query)
    expectOk(t, answer)
    t.deepEqual(
      answer.body.groups?.map(({ id, name }) => ({ id, name })),
      expected,
      query,
    )
    for (const { meta } of answer.body.groups ?? []) t.is(meta.status, 200)
    const { meta } = answer.body
    t.is(meta.total_records, 4)
    t.is(meta.start_index, start)
    if (perPage > 0) t.is(meta.records_per_page, perPage)
    t.truthy(meta.message)
  }
  const { links } = (await api.get(`${path}?start_index=1`)).body.meta
  const previous = (await api.get(`${links?.prev}`)).body
  t.like(previous, { meta: { start_index: 0, records_per_page: membershipsPerUser } })
  t.is(previous.groups?.length, 4)
  expectError(t, await api.get(`${path}?records_per_page=${membershipsPerUser + 1}`), 400, 'limit_exceeded')
  const { meta } = (await api.get(`/v1/users/${await createUser(api)}/groups`)).body
  t.is(meta.total_records, 0)
  for (const query of ['sort=id', 'id=1', 'name=a', 'include=groups', 'x=1'])
    expectError(t, await api.get(`${path}?${query}`), 400, 'unknown_parameter')
})

test('memberships: the limit of memberships per user is inclusive', async t => {
  const [user, groups] = [await createUser(api), await createNamedGroups(membershipsPerUser + 2)]
  const [first, ...rest] = groups
  await api.post(`/v1/users/${user}/groups`, { id: first?.id })
  const batch = await api.post(`/v1/users/${user}/groups`, { groups: rest })
  expectOk(t, batch)
  const statuses = batch.body.groups?.map(({ meta }) => meta.code ?? meta.status)
  t.deepEqual(statuses, [200, 200, 200, 200, 'limit_exceeded', 'limit_exceeded'])
  t.is(batch.body.meta.created, membershipsPerUser - 1)
  const last = groups.at(-1)
  expectError(t, await api.post(`/v1/users/${user}/groups`, { id: last?.id }), 400, 'limit_exceeded')
  expectOk(t, await api.post(`/v1/users/${user}/groups`, { id: first?.id }))
  expectOk(t, await api.delete(`/v1/users/${user}/groups/${first?.id}`))
  expectOk(t, await api.post(`/v1/users/${user}/groups`, { id: last?.id }))
  t.is((await groupsOf(user)).length, membershipsPerUser)
})

test('memberships: after the limit is lowered, a user keeps all groups, and GET without parameters lists them', async t => {
  const [user, groups] = [await createUser(api), await createNamedGroups(membershipsPerUser)]
  await api.post(`/v1/users/${user}/groups`, { groups })
  const config = { limits: { membershipsPerUser: 2, recordsPerPage: 3 } }
  const lowered = await startService({ database: service.database, config })
  t.teardown(lowered.stop)
  const client = openClient(lowered.url)
  const path = `/v1/users/${user}/groups`
  const ids = (records: { id?: number }[] = []) => records.map(({ id }) => id)

  const { groups: listed, meta } = (await client.get(path)).body
  t.deepEqual(ids(listed), ids(groups))
  t.like(meta, { total_records: membershipsPerUser, records_per_page: membershipsPerUser, links: {} })
  const page = (await client.get(`${path}?start_index=1`)).body
  t.deepEqual(ids(page.groups), ids(groups.slice(1, 3)))
  for (const link of [page.meta.links?.next, page.meta.links?.prev]) expectOk(t, await client.get(`${link}`))
})

test('memberships: a single membership supports only DELETE', async t => {
  const [user, group] = [await createUser(api), await createGroup(api)]
  const path = `/v1/users/${user}/groups/${group}`
  for (const answer of [await api.get(path), await api.put(path, {}), await api.patch(path, {})]) {
    expectError(t, answer, 405, 'method_not_allowed')
    t.regex(answer.headers.allow ?? '', /\bDELETE\b/)
  }
})
