// Many users join a group in one transaction: versions, totals, limits, and requests for the same users at the same time.
import test from 'ava'
import { hasCode } from '../../src/core/error-reason.ts'
import { createRecount } from '../../src/database/counting/recount.ts'
import type { Result } from '../../src/database/lane/outcome.ts'
import { createRecords } from '../../src/database/reading/records.ts'
import { groups } from '../../src/model/groups.ts'
import { resources } from '../../src/model/index.ts'
import { users } from '../../src/model/users.ts'
import { openDatabase } from '../support/open-database.ts'
import { allRecords, membersOf } from '../support/pages.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { createMemberWriters, createWriters, wrapApply } from '../support/writers.ts'

const USERS = 1000
const LIMIT = 15

const url = await createTestDatabase()
/** The error codes of statements that failed. */
const failures: string[] = []

/** Opens the database as one node of several does. */
const openNode = () => {
  // The time limits are longer than a slow machine needs for changes that wait for each other.
  const database = openDatabase({ url, acquireTimeoutMs: 60_000, queryTimeoutMs: 60_000 })
  const client = Object.getPrototypeOf(database.knex.client)
  const { _query } = client
  client._query = function (...statement: unknown[]) {
    return _query.apply(this, statement).catch((error: unknown) => {
      failures.push(hasCode(error) ? error.code : String(error))
      throw error
    })
  }
  return { database, memberships: createMemberWriters(database, LIMIT) }
}
const nodes = [openNode(), openNode()] as const
const [{ database, memberships }, other] = nodes
const { add, addMembers, remove } = memberships
const writers = createWriters(database, users)
const records = createRecords(database, users)
const groupWriters = createWriters(database, groups)

let sequence = 0
const createUsers = async (count: number): Promise<number[]> => {
  const names = Array.from({ length: count }, () => ({ first_name: 'Many', last_name: `${++sequence}` }))
  return (await writers.insertMany(names)).map(row => Number(row?.id))
}
const createGroup = async (): Promise<number> =>
  Number((await groupWriters.insertOne({ name: `group ${++sequence}` }))?.id)
const ids = await createUsers(USERS)
test.after.always(() => Promise.all(nodes.map(node => node.database.close())))

const versions = async (of: readonly number[] = ids) =>
  new Map((await records.read(of)).map(({ id, version }) => [id, version]))
const totalOf = async (group: number): Promise<number> => {
  const query = { ...allRecords, filters: [membersOf(group)], recordsPerPage: 1 }
  return (await records.page(query)).total
}
/** The outcomes without their rows. */
const brief = (added: Result) =>
  typeof added === 'string' ? [] : added.map(one => (typeof one === 'object' ? one.changed : one))

test.serial('members: 1,000 users join in one transaction, each with a version of its own', async t => {
  const group = await createGroup()
  const before = await versions()
  const first = ids.slice(0, 400)
  t.is(brief(await addMembers(group, first)).length, 400)
  const between = await versions()
  t.deepEqual(brief(await addMembers(group, ids.toReversed())), [
    ...Array(600).fill(true),
    ...Array(400).fill(false),
  ])
  const after = await versions()
  t.is(new Set(after.values()).size, USERS)
  for (const [index, id] of ids.entries()) {
    t.is(between.get(id) === before.get(id), index >= 400)
    t.is(after.get(id) === between.get(id), index < 400)
  }
  t.is(await totalOf(group), USERS)
})

test.serial('members: of 1,000 users, only those below their limit join', async t => {
  const some = await createUsers(1000)
  const full = some.slice(0, 10)
  for (let count = 0; count < LIMIT; count++) await addMembers(await createGroup(), full)
  const [group, before] = [await createGroup(), await versions(some)]
  const missing = Number.MAX_SAFE_INTEGER
  t.deepEqual(brief(await addMembers(group, [missing, ...some, missing, 1])), [
    'not_found',
    ...Array(10).fill('full'),
    ...Array(990).fill(true),
    'not_found',
    true,
  ])
  const after = await versions(some)
  t.deepEqual(
    some.filter(id => after.get(id) === before.get(id)),
    full,
  )
  t.is(await totalOf(group), 991)
  t.is(await addMembers(missing, some), 'not_found')
  t.is(await addMembers(group, some, () => false), 'precondition_failed')
})

test.serial('members: a user at the limit can leave one group and join another at the same time', async t => {
  const [user = 0] = await createUsers(1)
  const full: number[] = []
  while (full.length < LIMIT) full.push(await createGroup())
  await add(user, full)
  const next = await createGroup()
  // The lane puts them into one transaction.
  const [left, joined] = await Promise.all([remove(user, full[0] ?? 0), add(user, [next])])
  t.is(left, 'removed')
  t.deepEqual(brief(joined), [true])
})

test.serial('members: of two changes that need the same version of a user, one is made', async t => {
  const [user = 0] = await createUsers(1)
  const [one, two] = [await createGroup(), await createGroup()]
  const version = (await versions([user])).get(user)
  // The lane puts them into one transaction.
  const outcomes = await Promise.all(
    [one, two].map(group => memberships.add(user, [group], current => current === version)),
  )
  t.deepEqual(brief(outcomes[0] ?? 'not_found'), [true])
  t.is(outcomes[1], 'precondition_failed')
  t.is(await totalOf(two), 0)
})

test.serial(
  'members: a membership that one transaction adds and removes is as the last change leaves it',
  async t => {
    const [user = 0] = await createUsers(1)
    const group = await createGroup()
    const [added, removed] = await Promise.all([add(user, [group]), remove(user, group)])
    t.deepEqual([brief(added), removed, await totalOf(group)], [[true], 'removed', 0])
    await add(user, [group])
    const [left, again] = await Promise.all([remove(user, group), add(user, [group])])
    t.deepEqual([left, brief(again), await totalOf(group)], ['removed', [true], 1])
  },
)

test.serial('members: requests for the same users in opposite orders meet no deadlock', async t => {
  const shared = await createUsers(USERS)
  const targets = await Promise.all(Array.from({ length: 6 }, createGroup))
  const extra = await createGroup()
  failures.length = 0
  const requests = targets.flatMap((group, index) => {
    const order = index % 2 === 0 ? shared : shared.toReversed()
    return [addMembers(group, order), other.memberships.addMembers(group, order.toReversed())]
  })
  // Meanwhile, users join and leave another group from their own side.
  const single = shared.slice(0, 50).map(async (id, index) => {
    const node = index % 2 === 0 ? memberships : other.memberships
    await node.add(id, [extra, ...targets])
    await node.remove(id, extra)
  })
  const outcomes = await Promise.all(requests)
  await Promise.all(single)
  t.deepEqual(
    failures.filter(code => code === 'ER_LOCK_DEADLOCK'),
    [],
  )
  for (const outcome of outcomes) t.is(brief(outcome).length, USERS)
  for (const group of targets) t.is(await totalOf(group), USERS)
  t.is(await totalOf(extra), 0)
  t.deepEqual(await createRecount(database, resources).find(), [])
})

test.serial('members: changes from both sides at the same time keep the limit and the totals', async t => {
  const [user = 0] = await createUsers(1)
  const targets = await Promise.all(Array.from({ length: LIMIT + 5 }, createGroup))
  const outcomes = await Promise.all(
    targets.map((group, index) => {
      const node = index % 2 === 0 ? memberships : other.memberships
      return index % 3 === 0 ? node.add(user, [group]) : node.addMembers(group, [user])
    }),
  )
  const flat = outcomes.flatMap(brief)
  t.is(flat.filter(one => one === true).length, LIMIT)
  t.is(flat.filter(one => one === 'full').length, 5)
  const member = targets.find((_, index) => flat[index] === true) ?? 0
  t.is(await remove(user, member), 'removed')
  t.deepEqual(brief(await add(user, [member])), [true])
  t.deepEqual(await createRecount(database, resources).find(), [])
})

test.serial(
  'members: requests of users with many groups share transactions of at most 10,000 memberships',
  async t => {
    const joining = await createUsers(12)
    const names = Array.from({ length: 1000 }, () => ({ name: `group ${++sequence}` }))
    const targets = (await groupWriters.insertMany(names)).map(row => Number(row?.id))
    const sizes: number[] = []
    const observed = wrapApply(database, async (trx, apply) => {
      const results = await apply()
      sizes.push(trx.changes.length)
      return results
    })
    const { add } = createMemberWriters(observed, targets.length)
    for (const outcome of await Promise.all(joining.map(id => add(id, targets))))
      t.deepEqual(brief(outcome), Array(targets.length).fill(true))
    t.is(Math.max(...sizes), 10_000)
  },
)
