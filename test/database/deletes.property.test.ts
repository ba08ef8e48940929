// Concurrent deletions of lists of records in small portions, against a model.
import test from 'ava'
import fc from 'fast-check'
import { createRecount } from '../../src/database/counting/recount.ts'
import { readHead } from '../../src/database/feed/portion.ts'
import { createDelete } from '../../src/database/writing/delete.ts'
import { groups } from '../../src/model/groups.ts'
import { resources } from '../../src/model/index.ts'
import { idName } from '../../src/model/resource.ts'
import { users } from '../../src/model/users.ts'
import { openDatabase } from '../support/open-database.ts'
import { relation } from '../support/relation.ts'
import { readAll } from '../support/sequences.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { createMemberWriters, createWriters } from '../support/writers.ts'

const RECORDS = 5
const PORTION_ROWS = 4

const url = await createTestDatabase()
const database = openDatabase({ url }, { recordsEvents: true })
test.after.always(() => database.close())
const userWriters = createWriters(database, users)
const groupWriters = createWriters(database, groups)
const memberships = createMemberWriters(database)
const recount = createRecount(database, resources)

let sequence = 0

/** Creates users and groups. @param pairs the places of the users and groups of memberships */
async function createRecords(pairs: readonly (readonly [user: number, group: number])[]) {
  const marker = `${++sequence}`
  const numbers = Array.from({ length: RECORDS }, (_, at) => at)
  const people = await userWriters.insertMany(numbers.map(at => ({ first_name: `${at}`, last_name: marker })))
  const teams = await groupWriters.insertMany(numbers.map(at => ({ name: `${marker} ${at}` })))
  const ids = { users: people.map(row => row?.id ?? 0), groups: teams.map(row => row?.id ?? 0) }
  for (const [user, group] of pairs) await memberships.add(ids.users[user] ?? 0, [ids.groups[group] ?? 0])
  return ids
}

/** The place `RECORDS` stands for an id that does not exist. */
const list = fc.array(fc.nat(RECORDS), { minLength: 1, maxLength: 8 })
const scenario = fc.record({
  resource: fc.constantFrom(users, groups),
  pairs: fc.uniqueArray(fc.tuple(fc.nat(RECORDS - 1), fc.nat(RECORDS - 1)), {
    selector: pair => pair.join(),
    maxLength: 16,
  }),
  lists: fc.array(list, { minLength: 1, maxLength: 3 }),
})

test('deletes: of concurrent lists, one deletes each record, with its memberships, counts and event', async t => {
  const property = fc.asyncProperty(scenario, async ({ resource, pairs, lists }) => {
    const created = await createRecords(pairs)
    const ids = resource === users ? created.users : created.groups
    const unknown = Number.MAX_SAFE_INTEGER
    await database.numbering.number()
    const { head } = await readHead(database)
    const remove = createDelete(database, resource, resources, PORTION_ROWS)
    const results = await Promise.all(
      lists.map(places =>
        remove({ origin: { by: null, requestId: 'r' }, ids: places.map(at => ids[at] ?? unknown) }),
      ),
    )

    const outcomes = lists.flatMap((places, at) =>
      places.map((place, index) => ({ id: ids[place] ?? unknown, outcome: results[at]?.[index] })),
    )
    const listed = new Set(outcomes.map(({ id }) => id))
    listed.delete(unknown)
    const removed = outcomes.flatMap(({ outcome }) => (typeof outcome === 'object' ? outcome.row.id : []))
    t.deepEqual(removed.toSorted(), [...listed].toSorted())
    for (const { id, outcome } of outcomes)
      if (typeof outcome === 'object') t.is(outcome.row.id, id)
      else t.is(outcome, 'not_found')

    const { fromKey, toKey, table } = relation
    const left = await database.knex(table).whereIn(fromKey, created.users)
    const memberOf = ([user, group]: readonly [number, number]) => [
      created.users[user],
      created.groups[group],
    ]
    const kept = pairs.map(memberOf).filter(pair => !listed.has(pair[resource === users ? 0 : 1] ?? 0))
    t.deepEqual(left.map(row => [row[fromKey], row[toKey]].join()).toSorted(), kept.map(String).toSorted())
    t.deepEqual(await recount.find(), [])

    await database.numbering.number()
    const events = (await readAll(database)).filter(({ id }) => id > head)
    const deleted = events.filter(({ type }) => type === `${resource.singular}.deleted`)
    const deletedIds = deleted.map(event => event.ids[idName(resource)])
    t.deepEqual(deletedIds.toSorted(), [...listed].toSorted())
    if (lists.length === 1) t.deepEqual(deletedIds, [...listed])
    // Only the members of a group that has a portion of them end before it.
    for (const { type, ids } of events)
      if (type === 'membership.deleted') {
        const members = pairs.filter(pair => memberOf(pair)[1] === ids.group_id)
        t.true(resource === groups && members.length >= PORTION_ROWS)
      }
    t.is(events.length - deleted.length, events.filter(({ type }) => type === 'membership.deleted').length)
  })
  await fc.assert(property, { numRuns: 60 })
})
