// The database goes away: 503 with Retry-After, nothing half stored, and all is well once it is back.
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import mysql from 'mysql2/promise'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'
import { createDatabase } from '../support/service.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'

const database = await createDatabase()
const proxy = await openTcpProxy(database)
const behindProxy = new URL(database)
behindProxy.searchParams.delete('socketPath')
behindProxy.host = `127.0.0.1:${proxy.port}`
const { service, api, close } = await openApi({
  database: behindProxy.href,
  config: { database: { acquireTimeoutMs: 1000 } },
})
const direct = await mysql.createConnection(database)
test.after.always(async t => {
  await direct.end()
  await close(t)
  proxy.close()
})

test.serial('without a database every request is 503 with Retry-After, and works again after it', async t => {
  const user = await api.create('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
  proxy.slam()
  const answers = await Promise.all([
    api.get(`/v1/users/${user}`),
    api.get(`/v1/users/${user}?include=groups`),
    api.get('/v1/users'),
    api.post('/v1/users', { first_name: 'a', last_name: 'b' }),
    api.post('/v1/users', { users: [{ first_name: 'a', last_name: 'b' }] }),
    api.patch(`/v1/users/${user}`, { first_name: 'b' }),
    api.delete(`/v1/users/${user}`),
    api.post(`/v1/users/${user}/groups`, { id: 1 }),
  ])
  for (const answer of answers) {
    expectError(t, answer, 503, 'unavailable')
    t.regex(answer.headers['retry-after'] ?? '', /^\d+$/)
  }
  expectError(t, await api.get('/v1/nothing'), 404, 'route_not_found')
  expectError(t, await api.post('/v1/users', { first_name: 'a' }), 400, 'missing_field')
  proxy.open()
  expectOk(t, await api.get(`/v1/users/${user}`))
  t.is(await api.count('/v1/users'), 1)
})

test.serial('a connection lost within a batch: 503, and nothing of the batch is stored', async t => {
  const before = await api.count('/v1/users')
  // Somebody else holds one of the names without having committed it: the batch waits in the middle of its work.
  await direct.beginTransaction()
  await direct.query("INSERT INTO users (first_name, last_name, version) VALUES ('In', 'between', 1)")
  const users = [
    { first_name: 'First', last_name: 'Part' },
    { first_name: 'In', last_name: 'between' },
    { first_name: 'Last', last_name: 'Part' },
  ]
  const batch = api.post('/v1/users', { users })
  await waitsForLock()
  proxy.slam()
  const answer = await batch
  expectError(t, answer, 503, 'unavailable')
  t.truthy(answer.headers['retry-after'])
  await direct.rollback()
  proxy.open()
  t.is(await api.count('/v1/users'), before)
  const again = await api.post('/v1/users', { users })
  t.is(again.body.meta.created, users.length, again.text)
})

for (const [how, end] of [
  ['is lost with its connection', () => proxy.slam()],
  ['the server ends', (id: number) => direct.query(`KILL QUERY ${id}`)],
] as const)
  test.serial(`a statement that ${how}: the log says why, and not what people are called`, async t => {
    await direct.query('LOCK TABLES users WRITE')
    const page = api.get('/v1/users?first_name=Secret', { 'request-id': how.replaceAll(' ', '-') })
    await end(await waiting('Waiting for table%'))
    expectError(t, await page, 503, 'unavailable')
    await direct.query('UNLOCK TABLES')
    proxy.open()
    const line = service
      .log()
      .split('\n')
      .find(one => one.includes(`"requestId":"${how.replaceAll(' ', '-')}"`))
    t.regex(line ?? '', /"reason":".*(Connection lost|interrupted)/)
    t.notRegex(service.log(), /Secret/)
  })

/** Resolves with the connection of a statement that does `what`. */
async function waiting(what: string): Promise<number> {
  for (;;) {
    const [rows] = await direct.query<mysql.RowDataPacket[]>(
      'SELECT id FROM information_schema.processlist WHERE state LIKE ?',
      [what],
    )
    if (rows[0] !== undefined) return Number(rows[0].id ?? rows[0].ID)
  }
}

/** Resolves once a statement of the service waits for a lock of ours. */
async function waitsForLock(): Promise<void> {
  const deadline = Date.now() + 10_000
  for (;;) {
    const [waiting] = await direct.query<mysql.RowDataPacket[]>(
      "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
    )
    if (waiting.length > 0) return
    if (Date.now() > deadline) throw new Error('the batch did not wait for the lock')
    // InnoDB shows its transactions anew only where nobody has looked for 100 ms.
    await sleep(150)
  }
}
