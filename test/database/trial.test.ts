// Reads on trial: the database ends those that are slow, and the connection is sound afterwards.
import test from 'ava'
import { trySnapshot } from '../../src/database/reading/trial.ts'
import type { Statements } from '../../src/database/transaction.ts'
import { executeOn } from '../support/execute.ts'
import { openDatabase } from '../support/open-database.ts'
import { createDatabase } from '../support/service.ts'

const url = await createDatabase()
// One connection, so that a statement meets what a trial has left.
const database = openDatabase({ url, poolMax: 1 })
const { knex } = database
test.after.always(() => database.close())

const insert = (first: number, last: number) =>
  executeOn(
    url,
    `INSERT INTO users (first_name, version) VALUES ${Array.from({ length: last - first + 1 }, (_, n) => `('${first + n}', 1)`)}`,
  )
test.before(() => insert(1, 100))

const count = async (on: Statements) => (await on.select(() => knex('users').count({ total: '*' })))[0]?.total
/** Counts many combinations: a hundred million, or ten thousand. */
const combinations = (on: Statements, size: 2 | 4) => {
  const tables = ['a', 'b', 'c', 'd'].slice(0, size).map(name => `users AS ${name}`)
  return on.query(`SELECT COUNT(*) AS total FROM ${tables} WHERE a.version + 0 = 1`, [])
}
const patientMs = 60_000

test.serial('trial: its reads are of one snapshot', async t => {
  const act = async (on: Statements) => {
    const before = await count(on)
    await insert(101, 101)
    return [before, await count(on)]
  }
  t.deepEqual(await trySnapshot(knex, act, patientMs), [100, 100])
  t.is(await count(database), 101)
})

test.serial('trial: a slow statement ends it, and the next statement has no such limit', async t => {
  t.is(await trySnapshot(knex, on => combinations(on, 4), 20), undefined)
  const [slow] = await trySnapshot(knex, on => combinations(on, 2), patientMs).then(rows => rows ?? [])
  t.is(slow?.total, 101 ** 2)
  t.is(await count(database), 101)
})

test.serial('trial: an error of the database is thrown', async t => {
  const act = (on: Statements) => on.query('SELECT id FROM nothing', [])
  await t.throwsAsync(trySnapshot(knex, act, patientMs), { code: 'ER_NO_SUCH_TABLE' })
  t.is(await count(database), 101)
})
