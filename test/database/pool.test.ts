// The session settings of database connections.
import test from 'ava'
import { loadConfig } from '../../src/config/config.ts'
import { createLog } from '../../src/core/log.ts'
import { createDatabase } from '../../src/database/database.ts'
import { openMysqlProxy } from '../support/mysql-proxy.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'

const config = await loadConfig()
const url = await createTestDatabase()
const open = (queryTimeoutMs: number) =>
  createDatabase({ ...config.database, url, queryTimeoutMs }, createLog('silent', 'test'))
const database = open(config.database.queryTimeoutMs)
test.after.always(() => database.close())

test.serial('pool: the server ends a statement after queryTimeoutMs', async t => {
  const impatient = open(300)
  const slowStatement = `SELECT BENCHMARK(1000000000, SHA2('text', 512))`
  // Some servers end the statement with a result instead of an error.
  await impatient.run(knex => knex.raw(slowStatement)).catch(() => {})
  await impatient.close()
  const running = () =>
    database.query('SELECT id FROM information_schema.processlist WHERE info LIKE ?', ['SELECT BENCHMARK%'])
  while ((await running()).length > 0);
  t.pass()
})

/** Opens a database of one connection through a proxy. */
async function openThroughProxy(queryTimeoutMs: number) {
  const mysqlProxy = await openMysqlProxy(url)
  const settings = { ...config.database, url: mysqlProxy.url, poolMax: 1, queryTimeoutMs }
  const through = createDatabase(settings, createLog('silent', 'test'))
  const close = async () => {
    await through.close()
    mysqlProxy.proxy.close()
  }
  return { ...mysqlProxy, through, close }
}

test.serial('pool: a connection whose server accepts no writes any more is replaced', async t => {
  const { arm, struck, through, close } = await openThroughProxy(config.database.queryTimeoutMs)
  const connectionId = async () => (await through.query('SELECT CONNECTION_ID() AS id', []))[0]?.id
  const row = { version: 1 }
  const writes = [
    () => through.run(knex => knex('users').insert(row)),
    () => through.transaction(trx => through.execute('insert INTO users (version) VALUES (1)', [], trx)),
    () => through.transaction(async trx => trx('users').insert(row)),
  ]
  for (const errno of [1290, 1836, 1792, 1047, 1180, 3032, 3098, 3100])
    for (const write of writes) {
      const before = await connectionId()
      arm(/insert/, { errno, sqlState: 'HY000' })
      await t.throwsAsync(write(), { any: true, code: 'unavailable' })
      t.is(struck(), 1)
      t.not(await connectionId(), before)
    }
  await close()
})

test.serial('transaction: repeated if a schema change or a conflict between nodes has ended it', async t => {
  const { arm, struck, through, close } = await openThroughProxy(config.database.queryTimeoutMs)
  for (const [errno, statement] of [
    [1412, /insert/],
    [3101, /COMMIT/],
    [1213, /COMMIT/],
  ] as const) {
    arm(statement, { errno, sqlState: 'HY000' })
    await through.transaction(async trx => trx('users').insert({ last_name: `${errno}`, version: 1 }))
    t.is(struck(), 1)
    t.is((await database.query('SELECT id FROM users WHERE last_name = ?', [`${errno}`])).length, 1)
    await database.run(knex => knex('users').delete())
  }
  await close()
})

test.serial('pool: an interrupted UPDATE of several tables is unavailable', async t => {
  const { arm, through, close } = await openThroughProxy(config.database.queryTimeoutMs)
  arm(/SELECT 1/, { errno: 1105, sqlState: 'HY000' })
  await t.throwsAsync(through.query('SELECT 1', []), { any: true, code: 'unavailable' })
  await close()
})

test.serial('pool: the server releases the locks of a node that vanished during a transaction', async t => {
  const { proxy, through, close } = await openThroughProxy(1000)
  const row = { first_name: 'held', last_name: 'row', version: 1 }
  const [id] = await database.run(knex => knex('users').insert(row))
  const vanished = through.transaction(async trx => {
    await trx('users').where({ id }).forUpdate()
    proxy.block()
    await trx('users').where({ id }).update({ version: 2 })
  })
  await t.throwsAsync(vanished, { any: true, code: 'unavailable' })
  t.is(await database.transaction(async trx => trx('users').where({ id }).update({ version: 3 })), 1)
  await close()
})
