// The session settings of database connections.
import test from 'ava'
import { loadConfig } from '../../src/config/config.ts'
import { createLog } from '../../src/core/log.ts'
import { createDatabase } from '../../src/database/database.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'

const config = await loadConfig()
const url = await createTestDatabase()
const open = (queryTimeoutMs: number) =>
  createDatabase({ ...config.database, url, queryTimeoutMs }, createLog('silent', 'test'))
const database = open(config.database.queryTimeoutMs)
test.after.always(() => database.close())

test('pool: the server ends a statement after queryTimeoutMs', async t => {
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
