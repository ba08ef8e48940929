// What a connection agrees on with the server.
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

test('a statement that nobody waits for any more is ended in the server, too', async t => {
  const hasty = open(300)
  const minutes = `SELECT BENCHMARK(1000000000, SHA2('nobody waits', 512))`
  // A server may end it with a result.
  await hasty.run(knex => knex.raw(minutes)).catch(() => {})
  await hasty.close()
  const running = () =>
    database.query('SELECT id FROM information_schema.processlist WHERE info LIKE ?', ['SELECT BENCHMARK%'])
  while ((await running()).length > 0);
  t.pass()
})
