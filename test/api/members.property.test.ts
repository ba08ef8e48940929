// Random membership changes from both sides: the user's side, the group's side, filters, totals, ETags and includes agree.
import assert from 'node:assert/strict'
import test from 'ava'
import fc from 'fast-check'
import { openApi } from '../support/api-suite.ts'
import type { Body } from '../support/http.ts'
import { pick } from '../support/pick.ts'

const LIMIT = 3
const [USERS, GROUPS] = [5, 5]
const { openClient, close } = await openApi({
  workers: 2,
  config: { limits: { membershipsPerUser: LIMIT } },
})
// Several connections, so that both workers receive requests.
const clients = Array.from({ length: 6 }, () => openClient())
test.after.always(close)

const unknown = Number.MAX_SAFE_INTEGER

/** Indexes of users or groups; the last index is that of an id that does not exist. */
const someOf = (count: number) => fc.array(fc.nat(count), { minLength: 1, maxLength: 8 })
const [user, group, through] = [fc.nat(USERS - 1), fc.nat(GROUPS - 1), fc.nat()]
const change = fc.oneof(
  fc.record({ kind: fc.constant('addUsers' as const), group, users: someOf(USERS), through }),
  fc.record({ kind: fc.constant('addGroups' as const), user, groups: someOf(GROUPS), through }),
  fc.record({ kind: fc.constant('leave' as const), user, group, through }),
  fc.record({ kind: fc.constant('rename' as const), group, through }),
)
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never

/** Users and groups of one run. */
interface World {
  readonly users: readonly number[]
  readonly groups: readonly number[]
}

let sequence = 0
async function createWorld(): Promise<World> {
  const api = pick(clients, 0)
  const idsOf = (records: Body[] = []) => records.map(({ id }) => Number(id))
  const people = Array.from({ length: USERS }, () => ({ first_name: 'Both', last_name: `S ${++sequence}` }))
  const names = Array.from({ length: GROUPS }, () => ({ name: `both ${++sequence}` }))
  return {
    users: idsOf((await api.post('/v1/users', { users: people })).body.users),
    groups: idsOf((await api.post('/v1/groups', { groups: names })).body.groups),
  }
}

/** Returns the request of a change; a single reference is no batch. */
function requestOf({ users, groups }: World, { through, ...change }: Change) {
  const api = pick(clients, through)
  const body = (name: string, ids: readonly number[]) =>
    ids.length === 1 ? { id: ids[0] } : { [name]: ids.map(id => ({ id })) }
  switch (change.kind) {
    case 'addUsers': {
      const ids = change.users.map(index => users[index] ?? unknown)
      return { ids, send: () => api.post(`/v1/groups/${groups[change.group]}/users`, body('users', ids)) }
    }
    case 'addGroups': {
      const ids = change.groups.map(index => groups[index] ?? unknown)
      return { ids, send: () => api.post(`/v1/users/${users[change.user]}/groups`, body('groups', ids)) }
    }
    case 'leave':
      return {
        ids: [],
        send: () => api.delete(`/v1/users/${users[change.user]}/groups/${groups[change.group]}`),
      }
    case 'rename':
      return {
        ids: [],
        send: () => api.patch(`/v1/groups/${groups[change.group]}`, { name: `b ${++sequence}` }),
      }
  }
}

const indexes = (count: number) => Array.from({ length: count }, (_, index) => index)

/** The pairs of a user and a group, by index. */
class Model {
  private readonly pairs = new Set<string>()
  /** The users whose memberships the last change has changed. */
  readonly changed = new Set<number>()

  has = (user: number, group: number): boolean => this.pairs.has(`${user} ${group}`)
  groupsOf = (user: number): number[] => indexes(GROUPS).filter(group => this.has(user, group))
  usersOf = (group: number): number[] => indexes(USERS).filter(user => this.has(user, group))

  /** Returns the code of the outcome; undefined for a success. */
  add(user: number, group: number): string | undefined {
    if (user === USERS) return 'user_not_found'
    if (group === GROUPS) return 'group_not_found'
    if (this.has(user, group)) return undefined
    if (this.groupsOf(user).length === LIMIT) return 'limit_exceeded'
    this.pairs.add(`${user} ${group}`)
    this.changed.add(user)
    return undefined
  }

  remove(user: number, group: number): string | undefined {
    if (!this.pairs.delete(`${user} ${group}`)) return 'membership_not_found'
    this.changed.add(user)
    return undefined
  }

  /** Applies a change. @returns the code of each outcome */
  apply(change: Change): (string | undefined)[] {
    this.changed.clear()
    switch (change.kind) {
      case 'addUsers':
        return change.users.map(user => this.add(user, change.group))
      case 'addGroups':
        return change.groups.map(group => this.add(change.user, group))
      case 'leave':
        return [this.remove(change.user, change.group)]
      case 'rename':
        return [undefined]
    }
  }
}

async function read(path: string, through: number) {
  const answer = await pick(clients, through).get(path)
  assert.equal(answer.status, 200, `${path}: ${answer.text}`)
  return { etag: answer.headers.etag, body: answer.body }
}
const idsOf = (records: Body[] | undefined) => (records ?? []).map(({ id }) => Number(id))
/** The body without the links, which contain the path. */
const withoutLinks = ({ meta: { links: _, ...meta }, ...body }: Body) => ({ ...body, meta })

/** Asserts that the list of a user's groups is what the user includes. @returns the ids of the groups */
async function assertUser(id: number, through: number): Promise<number[]> {
  const list = await read(`/v1/users/${id}/groups`, through)
  const one = await read(`/v1/users/${id}?include=groups`, through + 1)
  assert.equal(list.etag, one.etag)
  const groups = list.body.groups?.map(({ meta: _, ...group }) => group)
  assert.equal(list.body.meta.total_records, groups?.length)
  assert.deepEqual(groups, one.body.groups)
  return idsOf(groups)
}

/** Asserts that the pages of a group are those of the filter, and have the users with these memberships. */
async function assertGroup(
  group: number,
  memberships: ReadonlyMap<number, readonly number[]>,
  through: number,
): Promise<void> {
  const members = [...memberships].flatMap(([user, groups]) => (groups.includes(group) ? [user] : []))
  for (const query of ['', 'include=groups', 'include=groups&sort=-id&records_per_page=2&start_index=1']) {
    const own = await read(`/v1/groups/${group}/users?${query}`, through)
    const filtered = await read(`/v1/users?groups[*].id=${group}&${query}`, through + 1)
    assert.equal(own.etag, filtered.etag)
    assert.deepEqual(withoutLinks(own.body), withoutLinks(filtered.body))
    assert.equal(own.body.meta.total_records, members.length)
    const shown = query.includes('sort') ? members.toReversed().slice(1, 3) : members
    assert.deepEqual(idsOf(own.body.users), shown)
    if (query === '') continue
    for (const user of own.body.users ?? [])
      assert.deepEqual(idsOf(user.groups), memberships.get(Number(user.id)))
  }
}

/** Asserts that all views show the same memberships. @returns those: the ids of the groups of each user */
async function assertAgreement({ users, groups }: World, through: number): Promise<number[][]> {
  const memberships = await Promise.all(users.map((id, index) => assertUser(id, through + index)))
  const byUser = new Map(users.map((id, index) => [id, memberships[index] ?? []]))
  await Promise.all(groups.map((id, index) => assertGroup(id, byUser, through + index)))
  return memberships
}

/** The version of each user, and the ETag of the page of each group. */
async function etagsOf({ users, groups }: World, through: number) {
  const one = async (path: string) => (await read(path, through)).etag
  return {
    users: await Promise.all(users.map(id => one(`/v1/users/${id}`))),
    groups: await Promise.all(groups.map(id => one(`/v1/groups/${id}/users`))),
  }
}

test.serial('members: both sides agree with each other and with the model after each change', async t => {
  const property = fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 8 }), async changes => {
    const world = await createWorld()
    const model = new Model()
    let before = await etagsOf(world, 0)
    for (const one of changes) {
      const { ids, send } = requestOf(world, one)
      const answer = await send()
      const members = world.groups.map((_, group) => model.usersOf(group))
      const codes = model.apply(one)
      if (ids.length > 1) {
        const entries = answer.body.users ?? answer.body.groups ?? []
        assert.deepEqual(idsOf(entries), ids)
        assert.deepEqual(
          entries.map(({ meta }) => meta.code),
          codes,
        )
      } else assert.equal(answer.body.meta.code, codes[0], answer.text)

      const memberships = await assertAgreement(world, one.through + 1)
      const expected = world.users.map((_, user) => model.groupsOf(user).map(group => world.groups[group]))
      assert.deepEqual(memberships, expected)
      // A change of its memberships changes the ETag of a user, and of the pages that it is, or was, on.
      const after = await etagsOf(world, one.through + 2)
      for (const user of world.users.keys())
        assert.equal(after.users[user] !== before.users[user], model.changed.has(user))
      for (const [group, users] of members.entries()) {
        const isChanged = [...users, ...model.usersOf(group)].some(user => model.changed.has(user))
        assert.equal(after.groups[group] !== before.groups[group], isChanged)
      }
      before = after
    }
  })
  await fc.assert(property, { numRuns: 15 })
  t.pass()
})

test.serial('members: both sides agree after concurrent changes', async t => {
  const property = fc.asyncProperty(fc.array(change, { minLength: 10, maxLength: 40 }), async changes => {
    const world = await createWorld()
    const answers = await Promise.all(changes.map(one => requestOf(world, one).send()))
    for (const { status, text } of answers) assert.ok([200, 400, 404].includes(status), text)
    const memberships = await assertAgreement(world, 0)
    for (const groups of memberships) assert.ok(groups.length <= LIMIT)
  })
  await fc.assert(property, { numRuns: 10 })
  t.pass()
})
