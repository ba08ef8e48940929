// Includes are never stale: random writes alternate with reads, with two workers.
import assert from 'node:assert/strict'
import test from 'ava'
import fc from 'fast-check'
import { openApi } from '../support/api-suite.ts'
import { type Body, type Client, createClient } from '../support/http.ts'
import { pick } from '../support/pick.ts'
import { startService } from '../support/service.ts'

const { openClient, close } = await openApi({ workers: 2 })
test.after.always(close)

const operation = fc.record({
  kind: fc.constantFrom(
    'join',
    'join',
    'join',
    'joinMany',
    'leave',
    'leave',
    'renameGroup',
    'renameUser',
    'removeGroup',
    'removeUser',
  ),
  user: fc.nat(),
  group: fc.nat(),
  writeThrough: fc.nat(),
  readThrough: fc.nat(),
  read: fc.constantFrom('one', 'one', 'page', 'groups'),
})
const operationCount = 200
const [userCount, groupCount] = [8, 10]

const withoutMeta = (groups: Body[] = []) => groups.map(({ id, name }) => ({ id, name }))

/** Sends one request at a time; every read must show all writes before it. */
test.serial('stale: every read with two workers shows all earlier writes', async t => {
  const seed = Date.now() % 2 ** 31
  t.log(`seed ${seed}`)
  // Several connections, so that both workers receive requests.
  const clients = Array.from({ length: 6 }, () => openClient())
  const [first] = clients
  let named = 0
  const groupNames = new Map<number, string>()
  const memberships = new Map<number, Set<number>>()
  const newGroup = async (api = pick(clients, 0)) => {
    const name = `sequence ${++named}`
    groupNames.set(await api.create('/v1/groups', { name }), name)
  }
  const newUser = async (api = pick(clients, 0)) => {
    memberships.set(
      await api.create('/v1/users', { first_name: 'Sequence', last_name: `${++named}` }),
      new Set(),
    )
  }
  for (let index = 0; index < groupCount; index++) await newGroup(first)
  for (let index = 0; index < userCount; index++) await newUser(first)

  const expected = (user: number) =>
    [...(memberships.get(user) ?? [])].sort((a, b) => a - b).map(id => ({ id, name: groupNames.get(id) }))

  const writes: Record<string, (api: Client, user: number, group: number) => Promise<number>> = {
    async join(api, user, group) {
      memberships.get(user)?.add(group)
      return (await api.post(`/v1/users/${user}/groups`, { id: group })).status
    },
    async joinMany(api, user) {
      const groups = [...groupNames.keys()].filter(id => (id + user) % 3 === 0)
      if (groups.length === 0) return 200
      for (const id of groups) memberships.get(user)?.add(id)
      return (await api.post(`/v1/users/${user}/groups`, { groups: groups.map(id => ({ id })) })).status
    },
    async leave(api, user, group) {
      const { status } = await api.delete(`/v1/users/${user}/groups/${group}`)
      const wanted = memberships.get(user)?.delete(group) ? 200 : 404
      return status === wanted ? 200 : status
    },
    async renameGroup(api, _user, group) {
      const name = `sequence ${++named}`
      groupNames.set(group, name)
      return (await api.patch(`/v1/groups/${group}`, { name })).status
    },
    async renameUser(api, user) {
      return (await api.patch(`/v1/users/${user}`, { last_name: `${++named}` })).status
    },
    async removeGroup(api, _user, group) {
      const { status } = await api.delete(`/v1/groups/${group}`)
      groupNames.delete(group)
      for (const groups of memberships.values()) groups.delete(group)
      await newGroup(api)
      return status
    },
    async removeUser(api, user) {
      const { status } = await api.delete(`/v1/users/${user}`)
      memberships.delete(user)
      await newUser(api)
      return status
    },
  }
  const reads: Record<string, (api: Client, user: number) => Promise<void>> = {
    async one(api, user) {
      const { body } = await api.get(`/v1/users/${user}?include=groups`)
      assert.deepEqual(withoutMeta(body.groups), expected(user))
    },
    async page(api) {
      const { body } = await api.get('/v1/users?include=groups&first_name=Sequence')
      assert.deepEqual(
        body.users?.map(({ id, groups }) => ({ id, groups: withoutMeta(groups) })),
        [...memberships.keys()].sort((a, b) => a - b).map(id => ({ id, groups: expected(id) })),
      )
    },
    async groups(api, user) {
      const { body } = await api.get(`/v1/users/${user}/groups`)
      assert.deepEqual(withoutMeta(body.groups), expected(user))
    },
  }
  for (const next of fc.sample(operation, { seed, numRuns: operationCount })) {
    const group = pick([...groupNames.keys()], next.group)
    const status = await writes[next.kind]?.(
      pick(clients, next.writeThrough),
      pick([...memberships.keys()], next.user),
      group,
    )
    assert.equal(status, 200, next.kind)
    // The user that is read can be another one: a write to a group changes the includes of all its members.
    await reads[next.read]?.(
      pick(clients, next.readThrough),
      pick([...memberships.keys()], next.user + next.readThrough),
    )
  }
  t.pass()
})

test.serial('stale: services with different databases and the same Redis do not share includes', async t => {
  const services = await Promise.all([startService(), startService()])
  for (const service of services) t.teardown(() => service.stop())
  const ids: number[] = []
  for (const [index, service] of services.entries()) {
    const api = createClient(service.url)
    const name = `of database ${index}`
    const user = await api.create('/v1/users', { first_name: 'Shared', last_name: 'Redis' })
    await api.post(`/v1/users/${user}/groups`, { id: await api.create('/v1/groups', { name }) })
    for (let round = 0; round < 3; round++) {
      const { groups } = (await api.get(`/v1/users/${user}?include=groups`)).body
      t.deepEqual(
        groups?.map(group => group.name),
        [name],
      )
    }
    ids.push(user)
    api.close()
  }
  t.is(ids[0], ids[1])
  t.deepEqual(await Promise.all(services.map(service => service.stop())), [0, 0])
})
