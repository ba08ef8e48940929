// Transactions whose BEGIN, ROLLBACK or COMMIT the server refuses: a request that fails stores nothing, and no connection
// keeps an open transaction or an old snapshot.
import test, { type ExecutionContext } from 'ava'
import mysql, { type RowDataPacket } from 'mysql2/promise'
import { interrupted, openMysqlProxy } from '../support/mysql-proxy.ts'
import { openDatabase } from '../support/open-database.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'

const url = await createTestDatabase()
const direct = await mysql.createConnection(url)
const mysqlProxy = await openMysqlProxy(url)
// One connection, so that each statement meets what the statement before it has left.
const database = openDatabase({ url: mysqlProxy.url, poolMax: 1 }, { level: 'silent' })
test.after.always(async () => {
  await Promise.all([database.close(), direct.end()])
  mysqlProxy.proxy.close()
})

let sequence = 0
const insertSql = 'INSERT INTO users (first_name, last_name, version) VALUES (?)'
const newName = () => `transaction ${++sequence}`

async function count(name: string): Promise<number> {
  const [rows] = await direct.query<RowDataPacket[]>('SELECT id FROM users WHERE last_name = ?', [name])
  return rows.length
}
const insert = (name: string) => database.transaction(trx => trx.execute(insertSql, [['x', name, 1]]))

/** Asserts that the connection of the pool writes what it is told to, and nothing else. */
async function expectSound(t: ExecutionContext, refused: string): Promise<void> {
  t.is(mysqlProxy.struck(), 1)
  const next = newName()
  await insert(next)
  t.is(await count(next), 1)
  t.is(await count(refused), 0)
}

test.serial('transaction: if BEGIN is refused, the body does not run', async t => {
  const name = newName()
  mysqlProxy.arm(/BEGIN/, interrupted)
  await t.throwsAsync(insert(name), { any: true, code: 'unavailable' })
  await expectSound(t, name)
})

test.serial(
  'transaction: if ROLLBACK is refused, the error is that of the body, and nothing is stored',
  async t => {
    const name = newName()
    mysqlProxy.arm(/ROLLBACK/, interrupted)
    const failing = database.transaction(async trx => {
      await trx.execute(insertSql, [['x', name, 1]])
      throw new RangeError('of the body')
    })
    await t.throwsAsync(failing, { instanceOf: RangeError, message: 'of the body' })
    await expectSound(t, name)
  },
)

test.serial('transaction: if COMMIT is refused, nothing is stored', async t => {
  const name = newName()
  mysqlProxy.arm(/COMMIT/, interrupted)
  await t.throwsAsync(insert(name), { any: true, code: 'unavailable' })
  await expectSound(t, name)
})

test.serial('transaction: a statement after the end of its transaction is not executed', async t => {
  const name = newName()
  const ended = await database.transaction(async trx => trx)
  await t.throwsAsync(ended.execute(insertSql, [['x', name, 1]]), { message: /complete/ })
  await t.throwsAsync(
    ended.select(knex => knex('users').select('id')),
    { message: /complete/ },
  )
  t.is(await count(name), 0)
})

for (const refused of ['SET TRANSACTION', 'BEGIN', 'COMMIT'])
  test.serial(`snapshot: if ${refused} is refused, later reads are not of an old snapshot`, async t => {
    const name = newName()
    const find = () => database.query('SELECT id FROM users WHERE last_name = ?', [name])
    mysqlProxy.arm(new RegExp(refused), interrupted)
    await t.throwsAsync(
      database.snapshot(trx => trx.query('SELECT id FROM users', [])),
      { any: true, code: 'unavailable' },
    )
    t.is(mysqlProxy.struck(), 1)
    t.deepEqual(await find(), [])
    await direct.query(insertSql, [['x', name, 1]])
    t.is((await find()).length, 1)
  })
