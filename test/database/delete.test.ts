// Deleting a group with many members: in portions, and each state between two portions is consistent.
import test from 'ava'
import { loadConfig } from '../../src/config/config.ts'
import { createLog } from '../../src/core/log.ts'
import { createDatabase } from '../../src/database/database.ts'
import { createRecords } from '../../src/database/reading/records.ts'
import { groups } from '../../src/model/groups.ts'
import { users } from '../../src/model/users.ts'
import { openMysqlProxy } from '../support/mysql-proxy.ts'
import { relation } from '../support/relation.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { until } from '../support/until.ts'
import { createMemberWriters, createWriters } from '../support/writers.ts'

const MEMBERS = 50_000
const PORTION_ROWS = 2000

const config = await loadConfig()
const url = await createTestDatabase()
const log = createLog('silent', 'test')
const database = createDatabase({ ...config.database, url }, log)
const records = createRecords(database, users)
const groupWriters = createWriters(database, groups, PORTION_ROWS)
const { remove } = groupWriters
const memberships = createMemberWriters(database, users, relation, 1000)
test.after.always(() => database.close())

const sequence = `WITH RECURSIVE sequence (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM sequence WHERE n < ?)`
let groupNumber = 0

/** Creates a group with all users of the database as its members. */
async function createLargeGroup(): Promise<number> {
  const row = await groupWriters.insertOne({ name: `large ${++groupNumber}` })
  if (row === undefined) throw new Error('the group exists already')
  await database.transaction(async trx => {
    await trx.execute('INSERT INTO memberships (user_id, group_id) SELECT id, ? FROM users', [row.id])
    await trx.run(knex => knex('counts').insert({ kind: 'groups.members', slot: row.id, amount: MEMBERS }))
  })
  return row.id
}

test.before(async () => {
  await database.transaction(async trx => {
    await trx.execute(`SET SESSION ${await recursionLimit()} = ${MEMBERS}`, [])
    await trx.execute(
      `INSERT INTO users (first_name, last_name, version) ${sequence} SELECT 'Member', n, n FROM sequence`,
      [MEMBERS],
    )
    await trx.execute(
      'INSERT INTO counts (kind, slot, amount) SELECT ?, id DIV 2048, COUNT(*) FROM users GROUP BY 2',
      ['users'],
    )
  })
})

async function recursionLimit(): Promise<string> {
  const names = await database.query(
    "SHOW VARIABLES WHERE variable_name IN ('cte_max_recursion_depth', 'max_recursive_iterations')",
    [],
  )
  return String(names[0]?.Variable_name)
}

/** Returns the total of members, after a check that it equals their number in the same snapshot. */
const countMembers = (id: number): Promise<number> =>
  database.snapshot(async trx => {
    const filter = { relation, column: 'id', comparison: { operator: 'equals' as const, value: id } }
    const { total } = await records.page(
      { filters: [filter], sort: [], startIndex: 0, recordsPerPage: 1 },
      trx,
    )
    const [stored] = await trx.query('SELECT COUNT(*) AS members FROM memberships WHERE group_id = ?', [id])
    if (total !== Number(stored?.members)) throw new Error(`total ${total}, but ${stored?.members} members`)
    return total
  })

const generation = async () => (await database.knex('group_generation').first('token')).token

test.serial(
  'delete: members of a large group go in portions, with exact totals and new generations',
  async t => {
    const id = await createLargeGroup()
    const [joiner] = await records.read([1])
    if (joiner === undefined) throw new Error('no user')
    await memberships.remove(joiner.id, id)
    let removed = false
    const removal = remove(id).finally(() => {
      removed = true
    })
    const totals = new Set<number>()
    const generations = new Map<unknown, Set<number>>()
    while (!removed) {
      // The generation is read first: with a generation, no more members are seen than when it was set.
      const token = await generation()
      const total = await countMembers(id)
      totals.add(total)
      generations.set(token, (generations.get(token) ?? new Set()).add(total))
      // Members that are added meanwhile are removed, too.
      if (totals.size === 3) await memberships.add(joiner.id, [id])
    }
    t.is(await removal, 'removed')
    t.true(totals.size > 5, `${totals.size} states were seen`)
    t.true(generations.size > 5, `${generations.size} generations were seen`)
    t.is(await countMembers(id), 0)
    t.deepEqual(await database.knex('groups').where({ id }), [])
    await database.compact()
    t.deepEqual(await database.knex('counts').where({ kind: 'groups.members', slot: id }), [])
    t.is(await remove(id), 'not_found')
  },
)

/** Starts the deletion of a large group and resolves once at least one portion is removed. */
async function startRemoval(start: (id: number) => Promise<unknown>) {
  const id = await createLargeGroup()
  const outcome = start(id).catch((error: unknown) => error)
  await until(async () => (await countMembers(id)) < MEMBERS, { everyMs: 1 })
  return { id, outcome }
}

test.serial('delete: a group that is renamed meanwhile keeps the members that are left', async t => {
  const { id, outcome } = await startRemoval(async id => {
    const { version } = await database.knex('groups').where({ id }).first('version')
    return remove(id, current => current === version)
  })
  t.like(await groupWriters.update(id, { name: 'renamed' }), { name: 'renamed' })
  t.is(await outcome, 'precondition_failed')
  const left = await countMembers(id)
  t.true(left < MEMBERS, `${left} members`)
  t.is(await remove(id), 'removed')
})

test.serial('delete: after a lost connection, the group can be deleted again', async t => {
  const through = await openMysqlProxy(url)
  t.teardown(() => through.proxy.close())
  const interrupted = createDatabase({ ...config.database, url: through.url }, log)
  t.teardown(interrupted.close)
  const id = await createLargeGroup()
  let portions = 0
  const outcome = createWriters(interrupted, groups, PORTION_ROWS).remove(id, () => {
    if (++portions === 3) through.arm(/delete from `memberships`/, 'cut before')
    return true
  })
  await t.throwsAsync(outcome, { any: true, code: 'unavailable' })
  t.is(await countMembers(id), MEMBERS - 2 * PORTION_ROWS)
  t.like((await database.knex('groups').where({ id }))[0], { id })
  t.is(await remove(id), 'removed')
  t.is(await countMembers(id), 0)
})
