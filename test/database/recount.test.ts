// The recount of the kept totals: exact during concurrent writes, and the output of `npm run recount`.
import { randomBytes } from 'node:crypto'
import test from 'ava'
import fc from 'fast-check'
import { insertCountChanges, memberChange, recordChange } from '../../src/database/counting/counts.ts'
import { createRecount } from '../../src/database/counting/recount.ts'
import { groups } from '../../src/model/groups.ts'
import { resources } from '../../src/model/index.ts'
import { users } from '../../src/model/users.ts'
import { compactAll } from '../support/compact-all.ts'
import { executeOn } from '../support/execute.ts'
import { openDatabase } from '../support/open-database.ts'
import { runNode } from '../support/run-to-end.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { createMemberWriters, createWriters } from '../support/writers.ts'

const url = await createTestDatabase()
const database = openDatabase({ url })
const userWriters = createWriters(database, users)
const groupWriters = createWriters(database, groups)
const memberships = createMemberWriters(database)
const recount = createRecount(database, resources)
test.after.always(() => database.close())

/** The kept counts by kind and slot, without those that are 0. */
async function keptCounts(): Promise<Record<string, number>> {
  const rows = await database.query(
    `SELECT CONCAT(kind, ' ', slot) AS place, SUM(amount) AS amount
     FROM (SELECT kind, slot, amount FROM counts UNION ALL SELECT kind, slot, amount FROM count_changes) AS kept
     GROUP BY kind, slot HAVING SUM(amount) <> 0 ORDER BY kind, slot`,
    [],
  )
  return Object.fromEntries(rows.map(({ place, amount }) => [String(place), Number(amount)]))
}

/** The same from the tables, counted independently of the recount. */
async function countedRows(): Promise<Record<string, number>> {
  const counted: Record<string, number> = {}
  const count = (place: string) => {
    counted[place] = (counted[place] ?? 0) + 1
  }
  for (const kind of ['users', 'groups'])
    for (const id of await database.knex(kind).pluck('id')) count(`${kind} ${Math.floor(id / 2048)}`)
  for (const id of await database.knex('memberships').pluck('group_id')) count(`groups.members ${id}`)
  return counted
}

// Ids within the first records, and of records that do not exist.
const id = fc.integer({ min: 1, max: 40 })
const drift = fc.record({
  table: fc.constantFrom('counts', 'count_changes'),
  kind: fc.constantFrom('users', 'groups', 'groups.members'),
  slot: fc.integer({ min: 0, max: 12 }),
  block: fc.nat(2),
  amount: fc.integer({ min: -5, max: 5 }),
})
let sequence = 0
const write = fc.oneof(
  fc.constant(() => userWriters.insertOne({ first_name: 'recount', last_name: String(++sequence) })),
  fc.constant(() => groupWriters.insertOne({ name: String(++sequence) })),
  id.map(user => () => userWriters.remove(user)),
  id.map(group => () => groupWriters.remove(group)),
  fc.tuple(id, fc.array(id)).map(
    ([user, added]) =>
      () =>
        memberships.add(user, added),
  ),
  fc.tuple(id, id).map(
    ([user, group]) =>
      () =>
        memberships.remove(user, group),
  ),
  fc.constant(() => database.compact()),
)

test.serial('recount: wrong counts are corrected exactly during concurrent writes and recounts', async t => {
  const writes = fc.array(write, { minLength: 5, maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(fc.array(drift, { maxLength: 6 }), writes, writes, async (drifts, before, during) => {
      await Promise.all(before.map(perform => perform()))
      for (const { table, kind, slot, block, amount } of drifts)
        await database.knex.raw(
          `INSERT INTO ${table} (kind, slot, block, amount) VALUES (?, ?, ?, ?)${table === 'counts' ? ' ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount)' : ''}`,
          [kind, slot, block, amount],
        )
      const [first = () => Promise.resolve(), ...others] = during
      await Promise.all([first(), recount.correct(), ...others.map(perform => perform()), recount.correct()])
      t.deepEqual(await keptCounts(), await countedRows())
      t.deepEqual(await recount.find(), [])
    }),
    { numRuns: 40 },
  )
})

test.serial('recount: right counts are left unchanged', async t => {
  await Promise.all(Array.from({ length: 20 }, () => groupWriters.insertOne({ name: String(++sequence) })))
  // Sums, because a compaction that an insert has started may still move rows from one table to the other.
  const before = await keptCounts()
  t.deepEqual(await recount.correct(), [])
  t.deepEqual(await keptCounts(), before)
})

test.serial('recount: a difference that a second comparison does not find is left alone', async t => {
  await database.transaction(trx =>
    insertCountChanges(trx, [recordChange(users, 1, 1), recordChange(users, 3000, 1)]),
  )
  let comparisons = 0
  const query: typeof database.query = async (...sent) => {
    const rows = await database.query(...sent)
    // As if a scan had skipped a row, only the first comparison finds this difference.
    if (++comparisons === 1)
      await database.transaction(trx => insertCountChanges(trx, [recordChange(users, 1, -1)]))
    return rows
  }
  const found = await createRecount({ ...database, query }, resources).find()
  t.deepEqual(
    found.map(({ ids }) => ids),
    ['users 2048 to 4095'],
  )
  t.is(comparisons, 2)
  t.is((await recount.correct()).length, 1)
  t.deepEqual(await keptCounts(), await countedRows())
})

test.serial('recount: many counts are corrected with few statements', async t => {
  const created = await Promise.all(
    Array.from({ length: 250 }, () => groupWriters.insertOne({ name: String(++sequence) })),
  )
  const ids = created.map(group => group?.id ?? 0)
  // The ids after the last one are those of no group.
  const slots = [...ids, ...ids.map(id => Math.max(...ids) + id)]
  await database
    .knex('count_changes')
    .insert(slots.flatMap(slot => [0, 1].map(block => ({ kind: 'groups.members', slot, block, amount: 2 }))))
  let statements = 0
  const counted = <T>(result: T) => {
    statements++
    return result
  }
  const transaction: typeof database.transaction = act =>
    database.transaction(trx =>
      act({
        ...trx,
        query: (...sent) => counted(trx.query(...sent)),
        execute: (...sent) => counted(trx.execute(...sent)),
      }),
    )
  const found = await createRecount({ ...database, transaction }, resources).correct()
  t.is(found.length, 1000)
  t.true(statements < 50, `${statements} statements`)
  t.deepEqual(await keptCounts(), await countedRows())
  t.deepEqual(await recount.find(), [])
})

test.serial('recount: two concurrent recounts correct a difference once', async t => {
  await database.transaction(trx => insertCountChanges(trx, [recordChange(users, 1, 1)]))
  const found = await Promise.all(Array.from({ length: 4 }, () => recount.correct()))
  t.is(found.flat().length, 1)
  t.deepEqual(await recount.find(), [])
})

test.serial('recount: a record that is deleted during the recount leaves no count', async t => {
  const group = (await groupWriters.insertOne({ name: 'deleted during the recount' }))?.id ?? 0
  const user = (await userWriters.insertOne({ first_name: 'Member', last_name: 'Of a group' }))?.id ?? 0
  await memberships.add(user, [group])
  await database.knex('count_changes').insert({ kind: 'groups.members', slot: group, amount: 2 })
  await database.transaction(async trx => {
    await trx.execute('DELETE FROM memberships WHERE group_id = ?', [group])
    await trx.execute('DELETE FROM `groups` WHERE id = ?', [group])
    await insertCountChanges(trx, [memberChange(groups, group, user, -1), recordChange(groups, group, -1)])
    const [difference, ...others] = await recount.correct()
    t.deepEqual(others, [])
    t.like(difference, { kind: 'groups.members', slot: group, kept: 3, actual: 1 })
  })
  t.deepEqual(await recount.find(), [])
  t.deepEqual(await keptCounts(), await countedRows())
  await compactAll(database)
  t.deepEqual(await database.knex('counts').where({ kind: 'groups.members', slot: group }), [])
})

test.serial('npm run recount: prints each difference, --check corrects nothing', async t => {
  const run = (...args: string[]) =>
    runNode('dist/recount.js', args, { ...process.env, DATABASE_URL: url, NODE_ENV: 'production' })
  const right = { code: 0, stdout: 'users-api: all kept totals are right\n', stderr: '' }
  t.deepEqual(await run('--check'), right)
  const group = await groupWriters.insertOne({ name: 'counted wrongly' })
  const total = (await database.knex('users').pluck('id')).filter(id => id < 2048).length
  await database.knex('count_changes').insert([
    { kind: 'users', slot: 0, amount: 3 },
    { kind: 'groups.members', slot: group?.id, amount: 2 },
  ])
  const lines = [
    `groups.members ${group?.id}, users 0 to 16383: 2 kept, 0 counted`,
    `users 0 to 2047: ${total + 3} kept, ${total} counted`,
  ]
  const printed = (last: string) => [...lines, last].map(line => `users-api: ${line}\n`).join('')
  const wrong = { stdout: printed('differences: 2, `npm run recount` corrects them'), stderr: '' }
  t.deepEqual(await run('--check'), { code: 1, ...wrong })
  t.deepEqual(await run('--check'), { code: 1, ...wrong })
  t.deepEqual(await run(), { code: 0, stdout: printed('differences: 2, corrected'), stderr: '' })
  t.deepEqual(await run('--check'), right)

  const info = () => database.knex('schema_info').first('min_code_version')
  await database.knex('schema_info').update({ min_code_version: 2 })
  t.deepEqual(await run(), right)
  t.deepEqual({ ...(await info()) }, { min_code_version: 2 })
  t.deepEqual(await run('--upgraded'), right)
  t.deepEqual({ ...(await info()) }, { min_code_version: 9 })

  t.like(await run('--chek'), { code: 2, stdout: '' })
  t.like(await run('--check', '--upgraded'), { code: 2, stdout: '' })
  const away = await runNode('dist/recount.js', ['--check'], {
    ...process.env,
    DATABASE_URL: 'mysql://root@127.0.0.1:9/users',
  })
  t.deepEqual([away.code, away.stdout], [69, ''])
  t.regex(
    away.stderr,
    /^users-api: the database cannot be reached \(.*\): start it, or correct DATABASE_URL\n$/,
  )
  const rejected = new URL(url)
  rejected.username = 'nobody'
  const refused = await runNode('dist/recount.js', [], { ...process.env, DATABASE_URL: rejected.href })
  t.deepEqual([refused.code, refused.stdout], [69, ''])
  t.regex(
    refused.stderr,
    /^users-api: the database rejects the connection \(Access denied .*\): correct DATABASE_URL, or .*\n$/,
  )

  const limited = new URL(url)
  limited.username = `test_${randomBytes(6).toString('hex')}`
  limited.password = ''
  await executeOn(
    url,
    `CREATE USER ${limited.username}@'%'`,
    `GRANT SELECT ON ${limited.pathname.slice(1)}.* TO ${limited.username}@'%'`,
  )
  t.teardown(() => executeOn(url, `DROP USER ${limited.username}@'%'`))
  const denied = await runNode('dist/recount.js', [], { ...process.env, DATABASE_URL: limited.href })
  t.deepEqual([denied.code, denied.stdout], [69, ''])
  t.regex(denied.stderr, /^users-api: (UPDATE|INSERT|SELECT|DELETE).* command denied to user .*\n$/)
})
