// Totals that are remembered: exact while several processes write, and counted again after each change.
import test from 'ava'
import fc from 'fast-check'
import { noteGap } from '../../src/database/feed/retention.ts'
import type { PageQuery, Selection } from '../../src/database/reading/page-query.ts'
import { createRecords } from '../../src/database/reading/records.ts'
import { groups } from '../../src/model/groups.ts'
import { users } from '../../src/model/users.ts'
import { executeOn } from '../support/execute.ts'
import { openDatabase } from '../support/open-database.ts'
import { allRecords } from '../support/pages.ts'
import { relation } from '../support/relation.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { createMemberWriters, createWriters } from '../support/writers.ts'

const url = await createTestDatabase()
/** Two processes with the change feed. Each remembers every total, however fast it is counted. */
const processes = [1, 2].map(() => {
  const database = openDatabase({ url }, { recordsEvents: true })
  const records = createRecords(database, users, 0)
  return {
    database,
    page: (selection: Partial<Selection>) => records.page({ ...allRecords, ...selection }),
    writers: createWriters(database, users),
    groupWriters: createWriters(database, groups, 2),
    memberships: createMemberWriters(database),
    number: () => database.numbering.number(),
  }
})
const [one, other] = processes
if (one === undefined || other === undefined) throw new Error('no processes')
test.after.always(() => Promise.all(processes.map(({ database }) => database.close())))

const named = (value: string): Pick<PageQuery, 'filters'> => ({
  filters: [{ relation: undefined, column: 'first_name', comparison: { operator: 'equals', value } }],
})
/** Adds a user without an event, so that a remembered total does not change. */
const insertSecretly = (first: string) =>
  executeOn(url, `INSERT INTO users (first_name, version) VALUES ('${first}', 1)`)

test.serial('total: it is remembered until the next change of any process', async t => {
  for (const last_name of ['a', 'b', 'c']) await one.writers.insertOne({ first_name: 'Ada', last_name })
  await one.number()
  t.is((await one.page(named('Ada'))).total, 3)
  await insertSecretly('Ada')
  const again = await one.page(named('Ada'))
  t.is(again.total, 3)
  t.is(again.rows.length, 4)
  await other.writers.insertOne({ first_name: 'Bea', last_name: 'a' })
  t.is((await one.page(named('Ada'))).total, 4)
  await other.number()
  t.is((await one.page(named('Ada'))).total, 4)
  await insertSecretly('Ada')
  t.is((await one.page(named('Ada'))).total, 4)
})

test.serial('total: those of searches are remembered, those of memberships are not', async t => {
  await one.writers.insertOne({ first_name: 'Cleo', last_name: 'a' })
  const user = await one.writers.insertOne({ first_name: 'Cleo', last_name: 'b' })
  const group = await one.groupWriters.insertOne({ name: 'one' })
  await one.memberships.add(user?.id ?? 0, [group?.id ?? 0])
  await one.number()
  const inGroup: Selection['filters'][number] = {
    relation,
    column: 'id',
    comparison: { operator: 'equals', value: group?.id ?? 0 },
  }
  t.is((await one.page({ filters: [], search: ['cle'] })).total, 2)
  t.is((await one.page({ filters: [inGroup], search: ['cle'] })).total, 1)
  await executeOn(url, `DELETE FROM memberships WHERE user_id = ${user?.id}`)
  await insertSecretly('Cleo')
  t.is((await one.page({ filters: [], search: ['cle'] })).total, 2)
  t.is((await one.page({ filters: [inGroup], search: ['cle'] })).total, 0)
})

test.serial('total: a process without the change feed remembers none', async t => {
  const database = openDatabase({ url })
  t.teardown(() => database.close())
  const records = createRecords(database, users, 0)
  const count = async () => (await records.page({ ...allRecords, ...named('Enid') })).total
  await one.number()
  t.is(await count(), 0)
  await createWriters(database, users).insertOne({ first_name: 'Enid', last_name: 'a' })
  t.is(await count(), 1)
})

test.serial('total: it is counted each time while a process runs without the change feed', async t => {
  await one.writers.insertOne({ first_name: 'Dora', last_name: 'a' })
  await one.number()
  t.is((await one.page(named('Dora'))).total, 1)
  await noteGap(other.database)
  await insertSecretly('Dora')
  t.is((await one.page(named('Dora'))).total, 2)
  await insertSecretly('Dora')
  t.is((await one.page(named('Dora'))).total, 3)
  await executeOn(url, 'UPDATE change_head SET is_complete = TRUE')
})

test.serial('total: it is counted each time while an earlier version can write', async t => {
  await one.writers.insertOne({ first_name: 'Fay', last_name: 'a' })
  await one.number()
  t.is((await one.page(named('Fay'))).total, 1)
  // Versions with eight migrations lack migration 008.
  await executeOn(url, 'UPDATE schema_info SET min_code_version = 8')
  await insertSecretly('Fay')
  t.is((await one.page(named('Fay'))).total, 2)
  await insertSecretly('Fay')
  t.is((await one.page(named('Fay'))).total, 3)
  await executeOn(url, 'UPDATE schema_info SET min_code_version = 9')
})

test.serial('total: it equals the records of its page, whatever two processes write and number', async t => {
  const process = fc.constantFrom(one, other)
  const first = fc.constantFrom('x', 'y')
  const last = fc.constantFrom('a', 'b', 'c', 'd')
  const step = fc.oneof(
    fc.record({ kind: fc.constant('create' as const), process, first, last }),
    fc.record({ kind: fc.constant('rename' as const), process, first, last, id: fc.nat(20) }),
    fc.record({ kind: fc.constant('delete' as const), process, id: fc.nat(20) }),
    fc.record({ kind: fc.constant('number' as const), process }),
    fc.record({ kind: fc.constant('read' as const), process, first }),
  )
  const property = fc.asyncProperty(
    fc.array(step, { minLength: 20, maxLength: 40 }),
    fc.boolean(),
    async (steps, atOnce) => {
      const act = async (taken: (typeof steps)[number]): Promise<void> => {
        const { writers, page, number } = taken.process
        const idAt = async (at: number) => (await page({ filters: [] })).rows.at(at)?.id ?? 0
        if (taken.kind === 'create')
          await writers.insertOne({ first_name: taken.first, last_name: taken.last })
        else if (taken.kind === 'rename')
          await writers.update(await idAt(taken.id), { first_name: taken.first, last_name: taken.last })
        else if (taken.kind === 'delete') await writers.remove(await idAt(taken.id))
        else if (taken.kind === 'number') await number()
        else
          for (const selection of [named(taken.first), { filters: [], search: [taken.first] }]) {
            const { total, rows } = await page(selection)
            t.is(total, rows.length)
          }
      }
      if (atOnce) await Promise.all(steps.map(act))
      else for (const taken of steps) await act(taken)
    },
  )
  await fc.assert(property, { numRuns: 40 })
})
