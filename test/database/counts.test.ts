// Totals from the counts against the real database: exact whatever is written at the same time, whoever adds them up.
import test from 'ava'
import fc from 'fast-check'
import { loadConfig } from '../../src/config/config.ts'
import { createLog } from '../../src/core/log.ts'
import { createCounts, SLOT_IDS } from '../../src/database/counting/counts.ts'
import { createDatabase } from '../../src/database/database.ts'
import type { Filter } from '../../src/database/reading/page-query.ts'
import { createRecords } from '../../src/database/reading/records.ts'
import { createMemberships } from '../../src/database/writing/memberships.ts'
import { groups } from '../../src/model/groups.ts'
import { users } from '../../src/model/users.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { createWriters } from '../support/writers.ts'

const config = await loadConfig()
const url = await createTestDatabase()
const database = createDatabase({ ...config.database, url }, createLog('warn', 'test'))
const { relation } = users
if (relation === undefined) throw new Error('users have groups')
const counts = createCounts(database)
const records = createRecords(database, users)
const writers = createWriters(database, counts, users)
const groupWriters = createWriters(database, counts, groups)
const memberships = createMemberships(database, counts, users, relation, 1000)
test.after.always(() => database.close())

const everything = { filters: [], sort: [], startIndex: 0, recordsPerPage: 1000 }

/** Filters whose totals are not counted record by record. */
const inGroup = (operator: 'equals' | 'differs', name: string): Filter => ({
  related: true,
  column: 'name',
  comparison: { operator, value: name },
})
const called = (operator: 'equals' | 'differs', name: string): Filter => ({
  related: false,
  column: 'first_name',
  comparison: { operator, value: name },
})

// Few ids and names, so that writes meet.
const name = fc.constantFrom('a', 'b', 'c')
const id = fc.integer({ min: 1, max: 60 })
const groupNames = ['one', 'two', 'three']
const groupId = fc.integer({ min: 1, max: 9 })
const write = fc.oneof(
  fc.record({ do: fc.constant('create' as const), first: name, last: name }),
  fc.record({ do: fc.constant('batch' as const), names: fc.array(fc.tuple(name, name), { maxLength: 8 }) }),
  fc.record({ do: fc.constant('rename' as const), id, first: fc.option(name) }),
  fc.record({ do: fc.constant('remove' as const), id }),
  fc.record({ do: fc.constant('join' as const), id, groups: fc.array(groupId, { maxLength: 3 }) }),
  fc.record({ do: fc.constant('leave' as const), id, group: groupId }),
  fc.record({ do: fc.constant('found' as const), name: fc.constantFrom(...groupNames) }),
  fc.record({ do: fc.constant('dissolve' as const), group: groupId }),
  fc.record({ do: fc.constant('compact' as const) }),
)
type Write = typeof write extends fc.Arbitrary<infer W> ? W : never

function perform(one: Write): Promise<unknown> {
  switch (one.do) {
    case 'create':
      return writers.insertOne({ first_name: one.first, last_name: one.last })
    case 'batch':
      return writers.insertMany(one.names.map(([first_name, last_name]) => ({ first_name, last_name })))
    case 'rename':
      return writers.update(one.id, { first_name: one.first })
    case 'remove':
      return writers.remove(one.id)
    case 'join':
      return memberships.add(one.id, one.groups)
    case 'leave':
      return memberships.remove(one.id, one.group)
    case 'found':
      return groupWriters.insertOne({ name: one.name })
    case 'dissolve':
      return groupWriters.remove(one.group)
    case 'compact':
      return counts.compact()
  }
}

/** Every total is that of the records that the same statement shows. */
async function assertExact(filters: readonly Filter[]): Promise<void> {
  const { rows, total } = await records.page({ ...everything, filters })
  if (rows.length !== total)
    throw new Error(`total ${total}, but ${rows.length} records for ${JSON.stringify(filters)}`)
}

const allFilters: readonly (readonly Filter[])[] = [
  [],
  [called('differs', 'a')],
  ...(['above', 'below'] as const).map((operator): Filter[] => [
    { related: false, column: 'id', comparison: { operator, value: 20 } },
  ]),
  ...groupNames.flatMap(group => [[inGroup('equals', group)], [inGroup('differs', group)]]),
]

test.serial('whatever is written at once, every total is that of its own moment', async t => {
  await fc.assert(
    fc.asyncProperty(fc.array(write, { minLength: 5, maxLength: 60 }), async all => {
      const underWay = Promise.all(all.map(perform))
      await Promise.all(allFilters.map(assertExact))
      await underWay
      await Promise.all(allFilters.map(assertExact))
    }),
    { numRuns: 25 },
  )
  t.pass()
})

test.serial('adding up changes no total, and leaves no line', async t => {
  await Promise.all([1, 2, 3].map(() => createCounts(database).compact()))
  await counts.compact()
  t.deepEqual(await database.knex('count_changes'), [])
  for (const filters of allFilters) await assertExact(filters)
  t.pass()
})

test.serial('adding up waits for nobody who is writing', async t => {
  const lines = Array.from({ length: 64 }, (_, slot) => ({ kind: 'nobody', slot, amount: 1 }))
  await database.knex('count_changes').insert(lines)
  const hasty = createDatabase({ ...config.database, url, queryTimeoutMs: 1000 }, createLog('silent', 'test'))
  const writer = await database.knex.transaction()
  await writers.insertOne({ first_name: 'Still', last_name: 'Writing' }, writer)
  await t.notThrowsAsync(createCounts(hasty).compact())
  await writer.commit()
  await hasty.close()
  await assertExact([])
})

test.serial('a removed group leaves no count', async t => {
  const group = await groupWriters.insertOne({ name: 'short-lived' })
  const user = await writers.insertOne({ first_name: 'Ada', last_name: 'Lovelace' })
  if (group === undefined || user === undefined) throw new Error('both are new')
  await memberships.add(user.id, [group.id])
  await counts.compact()
  await groupWriters.remove(group.id)
  t.deepEqual(await database.knex('counts').where({ kind: 'groups.members', slot: group.id }), [])
})

test.serial('many changes of one write are added up soon, not one write in so many', async t => {
  const user = await writers.insertOne({ first_name: 'Joiner', last_name: 'Of many' })
  const entries = Array.from({ length: 400 }, (_, n) => ({ name: `many ${n}` }))
  const found = await groupWriters.insertMany(entries)
  if (user === undefined) throw new Error('it is new')
  const ids = found.flatMap(group => (group === undefined ? [] : [group.id]))
  await memberships.add(user.id, ids)
  while ((await database.knex('count_changes')).length > 0) await new Promise(setImmediate)
  t.is((await database.knex('counts').where({ kind: 'groups.members' }).whereIn('slot', ids)).length, 400)
})

test.serial('what is removed while others come and go is gone, and leaves no count', async t => {
  const people = await writers.insertMany(
    Array.from({ length: 400 }, (_, n) => ({ first_name: 'fleeting', last_name: String(n) })),
  )
  const teams = await groupWriters.insertMany(
    Array.from({ length: 60 }, (_, n) => ({ name: `fleeting ${n}` })),
  )
  const userIds = people.map(row => row?.id ?? 0)
  const groupIds = teams.map(row => row?.id ?? 0)
  const some = (at: number) => [0, 1, 2].map(n => groupIds[(at * 7 + n) % groupIds.length] ?? 0)
  await Promise.all(userIds.map((user, at) => memberships.add(user, some(at))))
  await Promise.all(
    userIds.flatMap((user, at) => [
      memberships.add(user, some(at + 1)),
      writers.remove(user),
      groupWriters.remove(groupIds[at] ?? 0),
    ]),
  )
  await counts.compact()
  t.deepEqual(await database.knex('users').whereIn('id', userIds), [])
  t.deepEqual(await database.knex('groups').whereIn('id', groupIds), [])
  t.deepEqual(await database.knex('counts').where({ kind: 'groups.members' }).whereIn('slot', groupIds), [])
  await assertExact([])
})

test.serial('a page far into all records is the same as one by skipping', async t => {
  const fill = 3 * SLOT_IDS
  for (let done = 0; done < fill; done += 512)
    await writers.insertMany(
      Array.from({ length: 512 }, (_, n) => ({ first_name: 'many', last_name: String(done + n) })),
    )
  // Holes, and a slot that is empty.
  await Promise.all(Array.from({ length: 100 }, (_, n) => writers.remove(200 + n * 31)))
  const ids: number[] = await database.knex('users').orderBy('id').pluck('id')
  await fc.assert(
    fc.asyncProperty(fc.nat(ids.length + 10), fc.integer({ min: 1, max: 50 }), async (startIndex, length) => {
      const { rows, total } = await records.page({ ...everything, startIndex, recordsPerPage: length })
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
