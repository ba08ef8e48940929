// Pages of the members of a large group at any start index: exact after random changes, and while an earlier version writes.
import test from 'ava'
import fc from 'fast-check'
import { BLOCK_IDS } from '../../src/database/counting/counts.ts'
import { createRecount } from '../../src/database/counting/recount.ts'
import { up } from '../../src/database/migrations/007-member-blocks.ts'
import { createRecords } from '../../src/database/reading/records.ts'
import { groups } from '../../src/model/groups.ts'
import { resources } from '../../src/model/index.ts'
import { users } from '../../src/model/users.ts'
import { compactAll } from '../support/compact-all.ts'
import { openDatabase } from '../support/open-database.ts'
import { allRecords, membersOf } from '../support/pages.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { createMemberWriters, createWriters } from '../support/writers.ts'

const USERS = 9000
/** The ids of the users spread over several blocks. */
const ID_STEP = 41
const MEMBERS = 6000

const url = await createTestDatabase()
const database = openDatabase({ url })
const recount = createRecount(database, resources)
const records = createRecords(database, users)
const writers = createWriters(database, users)
const groupWriters = createWriters(database, groups)
const memberships = createMemberWriters(database)

/** The ids of all users, and of the members of the group. */
const userIds = Array.from({ length: USERS }, (_, n) => (n + 1) * ID_STEP)
const members = new Set<number>()
await database.knex.batchInsert(
  'users',
  userIds.map(id => ({ id, first_name: 'Sparse', last_name: `${id}`, version: id })),
)
await recount.correct()
const group = Number((await groupWriters.insertOne({ name: 'large' }))?.id)
const other = Number((await groupWriters.insertOne({ name: 'other' }))?.id)

async function addMembers(ids: readonly number[]): Promise<void> {
  const outcomes = await memberships.addMembers(group, ids)
  if (typeof outcomes === 'string') throw new Error(outcomes)
  for (const [index, id] of ids.entries()) if (outcomes[index] !== 'not_found') members.add(id)
}
const first = userIds.filter((_, index) => index % 3 > 0).slice(0, MEMBERS)
for (let index = 0; index < first.length; index += 1000) await addMembers(first.slice(index, index + 1000))

test.after.always(() => database.close())

const pageAt = (startIndex: number, recordsPerPage: number) => {
  return records.page({ ...allRecords, filters: [membersOf(group)], startIndex, recordsPerPage })
}

/** @throws Error if a page differs from that of a sorted list of the members */
async function assertPages(starts: readonly number[], size: number): Promise<void> {
  const expected = [...members].sort((one, two) => one - two)
  for (const start of starts) {
    const { rows, total } = await pageAt(start, size)
    const shown = rows.map(({ id }) => id).join()
    if (total !== expected.length || shown !== expected.slice(start, start + size).join())
      throw new Error(`the page at ${start} of ${expected.length} members has total ${total} and ${shown}`)
  }
}

const user = fc.constantFrom(...userIds)
const change = fc.oneof(
  fc.array(user, { minLength: 1, maxLength: 200 }).map(ids => () => addMembers([...new Set(ids)])),
  user.map(id => async () => {
    const outcomes = await memberships.add(id, [other, group])
    if (Array.isArray(outcomes)) members.add(id)
  }),
  user.map(id => async () => {
    await memberships.remove(id, group)
    members.delete(id)
  }),
  user.map(id => async () => {
    await writers.remove(id)
    members.delete(id)
  }),
  fc.constant(() => database.compact()),
)
const starts = fc.array(fc.nat(USERS), { minLength: 1, maxLength: 5 })

const changesAndPages = fc.asyncProperty(
  fc.array(change, { maxLength: 15 }),
  starts,
  fc.integer({ min: 1, max: 40 }),
  async (changes, starts, size) => {
    for (const perform of changes) await perform()
    await assertPages([...starts, members.size - 1, members.size], size)
  },
)

test.serial('member pages: at any start index as in a sorted list of the members', async t => {
  t.true(Math.max(...members) > 5 * BLOCK_IDS)
  await fc.assert(changesAndPages, { numRuns: 40 })
  t.deepEqual(await recount.find(), [])
})

test.serial('member pages: a page at a high start index skips at most one block', async t => {
  const statements: string[] = []
  const { client } = database.knex
  const { _query } = client
  client._query = function (connection: unknown, statement: { sql: string }) {
    statements.push(statement.sql)
    return _query.call(this, connection, statement)
  }
  await pageAt(members.size - 10, 5)
  client._query = _query
  t.regex(statements.join('\n'), /`user_id` >= \?/)
})

test.serial('member pages: exact while an earlier version writes, and after it', async t => {
  // The state after the migration of a database in use.
  await database.knex('schema_info').update({ min_code_version: 2 })
  const version = async () => (await database.knex('schema_info').first('min_code_version'))?.min_code_version
  // Earlier versions do not know blocks: these changes keep the total of each block 0, but not those of the others.
  const [leaves = 0] = members
  // Of the users that the random changes of the tests before have left.
  const others = database.knex('users').whereNotIn('id', [...members])
  const joins = Number((await others.max({ id: 'id' }).first())?.id)
  await database.knex.transaction(async trx => {
    await trx('memberships').where({ user_id: leaves, group_id: group }).delete()
    await trx('memberships').insert({ user_id: joins, group_id: group })
    const change = { kind: 'groups.members', slot: group }
    await trx('count_changes').insert([
      { ...change, amount: -1 },
      { ...change, amount: 1 },
    ])
  })
  members.delete(leaves)
  members.add(joins)
  await assertPages([3000, 4000, members.size - 3], 10)
  await fc.assert(changesAndPages, { numRuns: 5 })
  t.is(await version(), 2)

  t.true((await recount.correct()).length > 0)
  t.is(await version(), 2)
  await recount.correct(true)
  t.is(await version(), 9)
  await fc.assert(changesAndPages, { numRuns: 5 })
  t.deepEqual(await recount.find(), [])
})

test.serial('migration 007: moves the counts of members to blocks, with the same totals', async t => {
  const keptOf = () =>
    database
      .knex('counts')
      .where({ kind: 'groups.members' })
      .orderBy(['slot', 'block'])
      .select('slot', 'block', 'amount')
  await compactAll(database)
  const kept = (await keptOf()).filter(({ amount }) => Number(amount) !== 0)
  // The tables of the version before.
  const totals = await database.query(
    "SELECT kind, slot, SUM(amount) AS amount FROM counts WHERE kind = 'groups.members' GROUP BY kind, slot",
    [],
  )
  await database.knex('counts').where({ kind: 'groups.members' }).delete()
  await database.knex.raw(
    'ALTER TABLE counts DROP PRIMARY KEY, ADD PRIMARY KEY (kind, slot), DROP COLUMN block',
  )
  await database.knex.raw(`ALTER TABLE count_changes DROP KEY count_changes_kind_slot_block, DROP COLUMN block,
    ADD KEY count_changes_kind_slot (kind, slot, amount)`)
  await database.knex('counts').insert(totals)
  await database.knex('schema_info').update({ min_code_version: 2 })
  // Twice: after a crash, it is repeated.
  for (let run = 0; run < 2; run++) {
    await up(database.knex)
    t.deepEqual(
      (await keptOf()).filter(({ amount }) => Number(amount) !== 0),
      kept,
    )
    t.deepEqual(await recount.find(), [])
  }
  t.like(await database.knex('schema_info').first(), { min_code_version: 2 })
  await assertPages([4000, members.size - 3], 10)
})
