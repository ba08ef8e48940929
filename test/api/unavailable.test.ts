// The database becomes unreachable: requests are 503 with Retry-After, no batch is stored in part, and the
// service recovers once the database is back.
import test from 'ava'
import mysql from 'mysql2/promise'
import { runProgram } from '../../src/cli/private-servers/run-program.ts'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'
import { createOperator } from '../support/operator.ts'
import { runToEnd } from '../support/run-to-end.ts'
import { createDatabase } from '../support/service.ts'
import { type Session, sessionsOf } from '../support/sessions.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const database = await createDatabase()
const proxy = await openTcpProxy(database)
const behindProxy = new URL(database)
behindProxy.searchParams.delete('socketPath')
behindProxy.host = `127.0.0.1:${proxy.port}`
const { service, api, close } = await openApi({
  database: behindProxy.href,
  config: { log: { level: 'info', requests: false }, health: { databaseGraceMs: 1000 } },
})
const direct = await mysql.createConnection(database)
test.after.always(async t => {
  await direct.end()
  await close(t)
  proxy.close()
})

test.serial(
  'unavailable: requests are 503 with Retry-After without a database and succeed once it is back',
  async t => {
    const user = await api.create('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
    proxy.refuse()
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
  },
)

test.serial(
  'unavailable: a connection lost during a batch is 503, and nothing of the batch is stored',
  async t => {
    const before = await api.count('/v1/users')
    // The batch has inserted its users when it waits for this table.
    await direct.query('LOCK TABLES count_changes WRITE')
    const users = [
      { first_name: 'First', last_name: 'Part' },
      { first_name: 'In', last_name: 'between' },
      { first_name: 'Last', last_name: 'Part' },
    ]
    const batch = api.post('/v1/users', { users })
    await connectionInState('Waiting for table', 'INSERT INTO count_changes')
    proxy.refuse()
    const answer = await batch
    expectError(t, answer, 503, 'unavailable')
    t.truthy(answer.headers['retry-after'])
    await direct.query('UNLOCK TABLES')
    proxy.open()
    t.is(await api.count('/v1/users'), before)
    const again = await api.post('/v1/users', { users })
    t.is(again.body.meta.created, users.length, again.text)
  },
)

/** Resolves once the health of the database is known again. */
async function untilReachable(): Promise<void> {
  await until(
    () =>
      !service
        .logLines(/"database (un)?reachable/)
        .at(-1)
        ?.includes('unreachable'),
  )
}

test.serial('unavailable: an interrupted statement is logged with the reason and without names', async t => {
  await untilReachable()
  await direct.query('LOCK TABLES users WRITE')
  const page = api.get('/v1/users?first_name=Secret', { 'request-id': 'interrupted' })
  await direct.query(`KILL QUERY ${await connectionInState('Waiting for table')}`)
  expectError(t, await page, 503, 'unavailable')
  await direct.query('UNLOCK TABLES')
  t.regex(await service.logLine(/"requestId":"interrupted"/), /"reason":".*interrupted/)
  t.notRegex(service.log(), /Secret/)
})

test.serial('unavailable: an outage is logged once, with the reason and without names', async t => {
  await untilReachable()
  const before = service.log().length
  await direct.query('LOCK TABLES users WRITE')
  // Different pages: requests for the same page share one connection.
  const pages = Array.from({ length: 5 }, (_, n) => api.get(`/v1/users?first_name=Secret&start_index=${n}`))
  await connectionInState('Waiting for table')
  proxy.refuse()
  for (const page of await Promise.all(pages)) expectError(t, page, 503, 'unavailable')
  for (let n = 0; n < 20; n++) expectError(t, await api.get('/v1/users'), 503, 'unavailable')
  await direct.query('UNLOCK TABLES')
  proxy.open()
  await untilReachable()
  const lines = service.log().slice(before).trim().split('\n')
  t.deepEqual(
    lines.map(line => JSON.parse(line).msg),
    ['database unreachable', 'database reachable again'],
  )
  t.regex(lines[0] ?? '', /"reason":".*(Connection lost|ECONN|closed|ended)/)
  t.notRegex(service.log(), /Secret/)
})

test.serial('unavailable: on a port that drains, a request that waits for changes is answered', async t => {
  const operator = createOperator(service)
  await untilReachable()
  const waiting = api.get('/v1/changes?after=latest&wait=60')
  await operator.until(({ changes }) => changes?.readers === 1)
  proxy.refuse()
  // By then, no event in memory is fresh.
  await operator.untilHealth('http', 503)
  await operator.run('drain', 'http')
  const answer = await waiting
  expectOk(t, answer)
  t.is(answer.body.meta.message, '0 changes')
  proxy.open()
  await operator.run('resume', 'http')
})

test.serial('unavailable: an empty database in the place of the other one is an outage', async t => {
  await untilReachable()
  const before = service.logLines(/database unreachable/).length
  await direct.query('RENAME TABLE users TO users_away, knex_migrations TO knex_migrations_away')
  expectError(t, await api.get('/v1/users'), 503, 'unavailable')
  expectError(t, await api.post('/v1/users', { first_name: 'a', last_name: 'b' }), 503, 'unavailable')
  t.regex(
    await service.logLine(/"database unreachable"/, before + 1),
    /lacks the migrations 001.*npm run migrate/,
  )
  await direct.query('RENAME TABLE users_away TO users, knex_migrations_away TO knex_migrations')
  await untilReachable()
  expectOk(t, await api.get('/v1/users'))
})

test.serial('unavailable: a later reason is logged as well if it needs an operator', async t => {
  await untilReachable()
  const before = service.logLines(/lacks the migrations/).length
  const outage = service.logLine(/database unreachable/, service.logLines(/database unreachable/).length + 1)
  proxy.refuse()
  expectError(t, await api.get('/v1/users'), 503, 'unavailable')
  t.notRegex(await outage, /migrations/)
  await direct.query('RENAME TABLE knex_migrations TO knex_migrations_away')
  proxy.open()
  await service.logLine(/database unreachable/, service.logLines(/database unreachable/).length + 1)
  await direct.query('RENAME TABLE knex_migrations_away TO knex_migrations')
  await untilReachable()
  t.is(service.logLines(/lacks the migrations/).length, before + 1)
})

const onLinux = process.platform === 'linux' ? test.serial : test.serial.skip
onLinux('unavailable: requests are 503 while a worker has no free file descriptor', async t => {
  await untilReachable()
  const [worker] = await service.workers()
  const limit = (files: string) => runProgram('prlimit', ['--pid', `${worker}`, `--nofile=${files}:`])
  const query = `--pid ${worker} --nofile --output SOFT --noheadings`
  const { stdout: before } = await runToEnd('prlimit', query.split(' '))
  await limit('3')
  // Some can have ended meanwhile.
  for (const { id } of await sessionsOf(database, direct))
    if (id !== direct.threadId) await direct.query(`KILL ${id}`).catch(() => {})
  expectError(t, await api.get('/v1/users'), 503, 'unavailable')
  await limit(before.trim())
  await untilReachable()
  expectOk(t, await api.get('/v1/users'))
})

/** Resolves with the id of the connection to the database of this test whose state and statement begin with these texts. */
async function connectionInState(stateStart: string, statementStart = ''): Promise<number> {
  return until(async () => {
    const sessions = await sessionsOf(database, direct)
    const isWanted = ({ state, info }: Session) =>
      state?.startsWith(stateStart) === true && info?.startsWith(statementStart) === true
    return sessions.find(isWanted)?.id
  })
}
