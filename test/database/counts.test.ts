// Counts and totals in a real database: exact during concurrent writes and compactions.
import test from 'ava'
import fc from 'fast-check'
import { insertCountChanges, recordChange, SLOT_IDS } from '../../src/database/counting/counts.ts'
import type { Filter } from '../../src/database/reading/page-query.ts'
import { createRecords } from '../../src/database/reading/records.ts'
import { groups } from '../../src/model/groups.ts'
import { users } from '../../src/model/users.ts'
import { compactAll } from '../support/compact-all.ts'
import { createGate } from '../support/gate.ts'
import { openDatabase } from '../support/open-database.ts'
import { allRecords } from '../support/pages.ts'
import { relation } from '../support/relation.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { until } from '../support/until.ts'
import { createMemberWriters, createWriters } from '../support/writers.ts'

const url = await createTestDatabase()
// Writes that wait for each other have more time than a slow machine needs.
const database = openDatabase({ url, acquireTimeoutMs: 60_000, queryTimeoutMs: 60_000 })
const records = createRecords(database, users)
const writers = createWriters(database, users)
const groupWriters = createWriters(database, groups)
const memberships = createMemberWriters(database)
test.after.always(() => database.close())

// Filters whose totals are calculated from the counts.
const inGroup = (operator: 'equals' | 'differs', name: string): Filter => ({
  relation,
  column: 'name',
  comparison: { operator, value: name },
})
const firstName = (operator: 'equals' | 'differs', name: string): Filter => ({
  relation: undefined,
  column: 'first_name',
  comparison: { operator, value: name },
})

// Few ids and names, so that writes conflict.
const name = fc.constantFrom('a', 'b', 'c')
const id = fc.integer({ min: 1, max: 60 })
const groupNames = ['one', 'two', 'three']
const groupId = fc.integer({ min: 1, max: 9 })
const write = fc.oneof(
  fc.record({ kind: fc.constant('insert user' as const), first: name, last: name }),
  fc.record({
    kind: fc.constant('insert users' as const),
    names: fc.array(fc.tuple(name, name), { maxLength: 8 }),
  }),
  fc.record({ kind: fc.constant('update user' as const), id, first: fc.option(name) }),
  fc.record({ kind: fc.constant('delete user' as const), id }),
  fc.record({
    kind: fc.constant('add memberships' as const),
    id,
    groups: fc.array(groupId, { maxLength: 3 }),
  }),
  fc.record({ kind: fc.constant('remove membership' as const), id, group: groupId }),
  fc.record({ kind: fc.constant('insert group' as const), name: fc.constantFrom(...groupNames) }),
  fc.record({ kind: fc.constant('delete group' as const), group: groupId }),
  fc.record({ kind: fc.constant('compact' as const) }),
)
type Write = typeof write extends fc.Arbitrary<infer W> ? W : never

function perform(operation: Write): Promise<unknown> {
  switch (operation.kind) {
    case 'insert user':
      return writers.insertOne({ first_name: operation.first, last_name: operation.last })
    case 'insert users':
      return writers.insertMany(operation.names.map(([first_name, last_name]) => ({ first_name, last_name })))
    case 'update user':
      return writers.update(operation.id, { first_name: operation.first })
    case 'delete user':
      return writers.remove(operation.id)
    case 'add memberships':
      return memberships.add(operation.id, operation.groups)
    case 'remove membership':
      return memberships.remove(operation.id, operation.group)
    case 'insert group':
      return groupWriters.insertOne({ name: operation.name })
    case 'delete group':
      return groupWriters.remove(operation.group)
    case 'compact':
      return database.compact()
  }
}

/** Asserts that the total equals the number of records that the same statement returns. */
async function assertExact(filters: readonly Filter[]): Promise<void> {
  const { rows, total } = await records.page({ ...allRecords, filters })
  if (rows.length !== total)
    throw new Error(`total ${total} but ${rows.length} records for ${JSON.stringify(filters)}`)
}

const allFilters: readonly (readonly Filter[])[] = [
  [],
  [firstName('differs', 'a')],
  ...(['above', 'below'] as const).map((operator): Filter[] => [
    { relation: undefined, column: 'id', comparison: { operator, value: 20 } },
  ]),
  ...groupNames.flatMap(group => [[inGroup('equals', group)], [inGroup('differs', group)]]),
]

test.serial('counts: totals are exact in each snapshot during concurrent writes', async t => {
  await fc.assert(
    fc.asyncProperty(fc.array(write, { minLength: 5, maxLength: 60 }), async writes => {
      const inProgress = Promise.all(writes.map(perform))
      await Promise.all(allFilters.map(assertExact))
      await inProgress
      await Promise.all(allFilters.map(assertExact))
    }),
    { numRuns: 25 },
  )
  t.pass()
})

test.serial('compact: keeps all totals and moves all rows', async t => {
  await Promise.all([1, 2, 3].map(() => database.compact()))
  await compactAll(database)
  for (const filters of allFilters) await assertExact(filters)
  t.pass()
})

test.serial('compact: leaves no count of ids whose records are deleted', async t => {
  const group = await groupWriters.insertOne({ name: 'left' })
  const people = await writers.insertMany(
    Array.from({ length: 10 }, (_, n) => ({ first_name: 'leaver', last_name: String(n) })),
  )
  const ids = people.map(row => row?.id ?? 0)
  const first = ids[0] ?? 0
  await memberships.addMembers(group?.id ?? 0, ids)
  await compactAll(database)
  const counted = () =>
    database.knex('counts').where({ kind: 'groups.members', slot: group?.id }).pluck('amount')
  t.deepEqual((await counted()).map(Number), [10])
  await memberships.remove(first, group?.id ?? 0)
  await compactAll(database)
  t.deepEqual((await counted()).map(Number), [9])
  await Promise.all(ids.map(id => writers.remove(id)))
  await compactAll(database)
  t.deepEqual(await counted(), [])
  await assertExact([inGroup('equals', 'left')])
})

test.serial('compact: does not wait for open transactions that have written', async t => {
  const changes = Array.from({ length: 64 }, (_, slot) => ({ kind: 'unused', slot, amount: 1 }))
  await database.knex('count_changes').insert(changes)
  // Its compaction would fail after the time limit, before the transaction ends.
  const other = openDatabase({ url, queryTimeoutMs: 30_000 }, { level: 'silent' })
  await database.transaction(async trx => {
    const insertSql = 'INSERT INTO users (first_name, last_name, version) VALUES (?)'
    const { insertId } = await trx.execute(insertSql, [['Still', 'Writing', 1]])
    await insertCountChanges(trx, [recordChange(users, insertId, 1)])
    await t.notThrowsAsync(other.compact())
  })
  await other.close()
  await assertExact([])
})

test.serial('compact: exact on a database that ignores SKIP LOCKED', async t => {
  const processCount = 3
  let taken = 0
  const allHaveTaken = createGate()
  /** Opens the database of a process. Its first compaction goes on when those of all processes have read the same rows. */
  function openIgnoring() {
    const ignoring = openDatabase({ url })
    const client = Object.getPrototypeOf(ignoring.knex.client)
    const { _query } = client
    client._query = async function (connection: unknown, statement: { sql: string }) {
      const sql = statement.sql.replace(/ FOR UPDATE SKIP LOCKED$/, '')
      const isTake = sql !== statement.sql
      statement.sql = sql
      const result = await _query.call(this, connection, statement)
      if (isTake && ++taken === processCount) allHaveTaken.open()
      if (isTake) await allHaveTaken.opened
      return result
    }
    return ignoring
  }
  const processes = Array.from({ length: processCount }, openIgnoring)
  const changes = Array.from({ length: 500 }, (_, slot) => ({ kind: 'twice?', slot, amount: 1 }))
  await database.knex('count_changes').insert(changes)
  await Promise.all(processes.map(one => one.compact()))
  await Promise.all(processes.map(one => one.close()))
  const [row] = await database.knex('counts').where({ kind: 'twice?' }).sum('amount as amount')
  t.is(Number(row?.amount), 500)
  t.deepEqual(await database.knex('count_changes').where({ kind: 'twice?' }), [])
})

test.serial('compact: leaves no member count of a deleted group', async t => {
  const group = await groupWriters.insertOne({ name: 'short-lived' })
  const user = await writers.insertOne({ first_name: 'Ada', last_name: 'Lovelace' })
  if (group === undefined || user === undefined) throw new Error('the user or the group exists already')
  await memberships.add(user.id, [group.id])
  await compactAll(database)
  await groupWriters.remove(group.id)
  await compactAll(database)
  t.deepEqual(await database.knex('counts').where({ kind: 'groups.members', slot: group.id }), [])
})

test.serial('compact: one write with many changes starts a compaction', async t => {
  const user = await writers.insertOne({ first_name: 'Joiner', last_name: 'Of many' })
  const entries = Array.from({ length: 400 }, (_, n) => ({ name: `many ${n}` }))
  const inserted = await groupWriters.insertMany(entries)
  if (user === undefined) throw new Error('the user exists already')
  const ids = inserted.flatMap(group => (group === undefined ? [] : [group.id]))
  // A compaction that an earlier write has started would not move these changes, and no other one starts meanwhile.
  await compactAll(database)
  await memberships.add(user.id, ids)
  await until(async () => (await database.knex('count_changes')).length === 0)
  t.is((await database.knex('counts').where({ kind: 'groups.members' }).whereIn('slot', ids)).length, 400)
})

test.serial('counts: deletes during concurrent membership changes leave no rows and no counts', async t => {
  const people = await writers.insertMany(
    Array.from({ length: 400 }, (_, n) => ({ first_name: 'fleeting', last_name: String(n) })),
  )
  const teams = await groupWriters.insertMany(
    Array.from({ length: 60 }, (_, n) => ({ name: `fleeting ${n}` })),
  )
  const userIds = people.map(row => row?.id ?? 0)
  const groupIds = teams.map(row => row?.id ?? 0)
  const groupsOf = (index: number) => [0, 1, 2].map(n => groupIds[(index * 7 + n) % groupIds.length] ?? 0)
  await Promise.all(userIds.map((user, index) => memberships.add(user, groupsOf(index))))
  await Promise.all(
    userIds.flatMap((user, index) => [
      memberships.add(user, groupsOf(index + 1)),
      writers.remove(user),
      groupWriters.remove(groupIds[index] ?? 0),
    ]),
  )
  await compactAll(database)
  t.deepEqual(await database.knex('users').whereIn('id', userIds), [])
  t.deepEqual(await database.knex('groups').whereIn('id', groupIds), [])
  t.deepEqual(await database.knex('counts').where({ kind: 'groups.members' }).whereIn('slot', groupIds), [])
  await assertExact([])
})

test.serial('page seek: a page at a large offset is the same as with OFFSET', async t => {
  // Two gaps of many slots in the ids, small ones, and an empty slot.
  for (const [index, firstId] of [1, 500 * SLOT_IDS, 9000 * SLOT_IDS].entries()) {
    await database.knex.raw('ALTER TABLE users AUTO_INCREMENT = ?', [firstId])
    for (let done = index * SLOT_IDS; done < (index + 1) * SLOT_IDS; done += 512)
      await writers.insertMany(
        Array.from({ length: 512 }, (_, n) => ({ first_name: 'many', last_name: String(done + n) })),
      )
  }
  await Promise.all(Array.from({ length: 100 }, (_, n) => writers.remove(200 + n * 31)))
  const ids: number[] = await database.knex('users').orderBy('id').pluck('id')
  await fc.assert(
    fc.asyncProperty(fc.nat(ids.length + 10), fc.integer({ min: 1, max: 50 }), async (startIndex, length) => {
      const { rows, total } = await records.page({ ...allRecords, startIndex, recordsPerPage: length })
      const shown = rows.map(row => row.id)
      t.deepEqual({ total, shown }, { total: ids.length, shown: ids.slice(startIndex, startIndex + length) })
    }),
    {
      numRuns: 60,
      examples: [
        [SLOT_IDS, 1],
        [ids.length, 1],
        [ids.length - 1, 5],
      ],
    },
  )
  t.pass()
})

test.serial('page seek: a page with a search, a filter or another order is not sought by id', async t => {
  const [first]: number[] = await database.knex('users').orderBy('id').limit(1).pluck('id')
  await writers.update(Number(first), { first_name: 'one' })
  const many = database.knex('users').where('first_name', 'many')
  const all = database.knex('users')
  const cases = [
    [{ search: ['many'] }, many],
    [{ filters: [firstName('equals', 'many')] }, many],
    [{ sort: [{ column: 'last_name', descending: true }] }, all.clone().orderBy('last_name', 'desc')],
    [{ sort: [{ column: 'id', descending: true }] }, all.clone().orderBy('id', 'desc')],
  ] as const
  for (const [change, expected] of cases) {
    const ids: number[] = await expected.clone().orderBy('id').offset(SLOT_IDS).limit(5).pluck('id')
    const page = await records.page({ ...allRecords, ...change, startIndex: SLOT_IDS, recordsPerPage: 5 })
    t.deepEqual(
      page.rows.map(({ id }) => id),
      ids,
    )
  }
})

test.serial('totals: a sum that was interrupted is an error, not 0 or the end of the pages', async t => {
  const interrupted = openDatabase({ url }, { level: 'silent' })
  const client = Object.getPrototypeOf(interrupted.knex.client)
  const { _query } = client
  let cut = ''
  // MariaDB returns NULL for an interrupted scalar subquery.
  client._query = function (connection: unknown, statement: { sql: string }) {
    if (statement.sql.includes(cut))
      statement.sql = statement.sql.replaceAll('COALESCE(SUM(amount), 0)', 'MAX(NULL)')
    return _query.call(this, connection, statement)
  }
  for (const [startIndex, statement] of [
    [0, ' AS total'],
    [SLOT_IDS, ' AS skipped'],
  ] as const) {
    cut = statement
    const page = createRecords(interrupted, users).page({ ...allRecords, startIndex })
    await t.throwsAsync(page, { any: true, code: 'unavailable' })
  }
  await interrupted.close()
})

test.serial('page seek: a page of the members of a large group is the same as with OFFSET', async t => {
  const ids: number[] = await database.knex('users').orderBy('id').pluck('id')
  const members = ids.filter(id => id % 11 > 0)
  const group = await groupWriters.insertOne({ name: 'large' })
  for (let first = 0; first < members.length; first += 1000)
    await memberships.addMembers(Number(group?.id), members.slice(first, first + 1000))
  const total = members.length
  t.true(total > 2 * SLOT_IDS)
  const query = { ...allRecords, filters: [inGroup('equals', 'large')] }
  await fc.assert(
    fc.asyncProperty(fc.nat(total + 10), fc.integer({ min: 1, max: 50 }), async (startIndex, length) => {
      const page = await records.page({ ...query, startIndex, recordsPerPage: length })
      t.is(page.total, total)
      t.deepEqual(
        page.rows.map(row => row.id),
        members.slice(startIndex, startIndex + length),
      )
    }),
    {
      numRuns: 60,
      examples: [
        [SLOT_IDS, 1],
        [total - 1, 5],
        [total, 1],
        [3 * total, 5],
      ],
    },
  )
})
