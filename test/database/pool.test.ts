// The connections of the pool: when they end, which server they go to, and the settings of their sessions.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import net, { type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import mysql, { type RowDataPacket } from 'mysql2'
import { pino } from 'pino'
import { loadConfig } from '../../src/config/config.ts'
import { createDatabase } from '../../src/database/database.ts'
import { createEpochs } from '../../src/database/epochs.ts'
import { openPool } from '../../src/database/pool.ts'
import { prepareSession } from '../../src/database/session.ts'
import { throughProxy } from '../faults/database-url.ts'
import { collectGarbage } from '../support/garbage.ts'
import { createGate } from '../support/gate.ts'
import { openMysqlProxy } from '../support/mysql-proxy.ts'
import { openDatabase } from '../support/open-database.ts'
import { listenOnFreePort } from '../support/ports.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { type Session, sessionsOf } from '../support/sessions.ts'
import { stall } from '../support/stall.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const config = await loadConfig()
const url = await createTestDatabase()
type Settings = Partial<Parameters<typeof openDatabase>[0]>
const openSilent = (settings: Settings) => openDatabase({ url, ...settings }, { level: 'silent' })
const database = openSilent({})
test.after.always(() => database.close())

/** Opens a database until the end of the test. */
function open(t: ExecutionContext, settings: Settings) {
  const opened = openSilent(settings)
  t.teardown(() => opened.close())
  return opened
}

const isUnavailable = { any: true, code: 'unavailable' } as const

/** A script that closes all sessions in the database but its own, and ends when the server has none of them. */
const closeOtherSessions = `
  import mysql from 'mysql2/promise'
  const connection = await mysql.createConnection(process.env.DATABASE_URL)
  const others = async () => {
    const [rows] = await connection.query('SHOW PROCESSLIST')
    return rows.filter(({ db, Id }) => db === connection.config.database && Id !== connection.threadId)
  }
  for (let left = await others(); left.length > 0; left = await others())
    for (const { Id } of left) await connection.query('KILL ' + Id).catch(() => {})
  await connection.end()`

test.serial('pool: the server ends a statement after queryTimeoutMs', async t => {
  const impatient = openSilent({ queryTimeoutMs: 300 })
  const slowStatement = `SELECT BENCHMARK(1000000000, SHA2('text', 512))`
  // Some servers end the statement with a result instead of an error.
  await impatient.query(slowStatement, []).catch(() => {})
  await impatient.close()
  const observer = await mysql.createConnection(url).promise()
  t.teardown(() => observer.destroy())
  const isRunning = ({ info }: Session) => info?.startsWith('SELECT BENCHMARK') === true
  await until(async () => !(await sessionsOf(url, observer)).some(isRunning))
  t.pass()
})

test.serial('pool: it forgets the connections that have ended', async t => {
  const epochs = createEpochs()
  const settings = { max: 1, acquireTimeoutMs: 5000, silenceTimeoutMs: 0, epochs }
  const knex = openPool(url, settings, pino({ level: 'silent' }))
  await knex.raw('SELECT 1')
  t.is(epochs.connections.size, 1)
  await knex.destroy()
  await until(() => epochs.connections.size === 0)
})

test.serial('pool: statements that have no connection when it closes are unavailable', async t => {
  const closing = openSilent({ poolMax: 1 })
  const outcome = (sql: string) => closing.query(sql, []).catch((error: unknown) => error)
  const outcomes = Promise.all(['SELECT SLEEP(0.2)', 'SELECT SLEEP(0.2)', 'SELECT 1'].map(outcome))
  await closing.close()
  for (const one of [(await outcomes)[2], await outcome('SELECT 1')])
    t.like(one, { code: 'unavailable', status: 503 })
})

test.serial('pool: a connection takes less than 200 KiB of the heap', async t => {
  const counted = openDatabase({ url, poolMax: 10 })
  t.teardown(() => counted.close())
  const { opened, open: end } = createGate()
  const hold = () => counted.snapshot(() => opened)
  const used = () => {
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const isHeld = (count: number) => until(() => counted.pool().used === count)
  const first = hold()
  await isHeld(1)
  const before = used()
  const others = Array.from({ length: 9 }, hold)
  await isHeld(10)
  const bytes = (used() - before) / others.length
  end()
  await Promise.all([first, ...others])
  t.true(bytes < 200 * 1024, String(bytes))
})

/** Adds TLS to what the greeting of a server offers. */
function offerTls(greeting: Buffer): void {
  const flags = greeting.indexOf(0, 5) + 14
  greeting.writeUInt16LE(greeting.readUInt16LE(flags) | 0x0800, flags)
}

test.serial('pool: a service waits at its start for a server that ends during the TLS handshake', async t => {
  for (const cut of ['end', 'resetAndDestroy'] as const) {
    let isCut = false
    const proxy = await openTcpProxy(url, (to, bytes, client) => {
      if (isCut) return true
      if (to === 'client') offerTls(bytes)
      else {
        isCut = true
        client[cut]()
      }
      return to === 'client'
    })
    t.teardown(() => proxy.close())
    const withTls = new URL(throughProxy(url, proxy.port))
    withTls.searchParams.set('ssl', '{"rejectUnauthorized":false}')
    let isWaiting = false
    const warnings = pino({}, { write: line => (isWaiting ||= line.includes('waiting for the database')) })
    const starting = createDatabase({ ...config.database, url: withTls.href }, warnings)
    t.teardown(() => starting.close())
    // The second connection fails if the server has no TLS.
    await starting.ready().catch(() => {})
    t.true(isWaiting)
  }
})

test.serial('session: results do not depend on defaults that a server can have', async t => {
  const raw = mysql.createConnection(url)
  const [odd, other] = [raw.promise(), mysql.createConnection(url).promise()]
  t.teardown(() => [odd, other].map(connection => connection.destroy()))
  const select = async (connection: typeof odd, sql: string) =>
    (await connection.query<RowDataPacket[]>(sql))[0].map(row => ({ ...row }))
  await odd.query(`SET SESSION sql_select_limit = 2, autocommit = 0, character_set_client = latin1,
    character_set_results = latin1, collation_connection = latin1_bin, completion_type = 'CHAIN', sql_safe_updates = 1,
    sql_big_selects = 0, time_zone = '+05:00', max_sort_length = 64`)
  await odd.query('SET SESSION TRANSACTION READ ONLY')
  await prepareSession(raw, 0)
  t.is((await select(odd, 'SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3')).length, 3)
  await odd.query("INSERT INTO users (first_name, last_name, version) VALUES ('é😀', 'session', 1)")
  const stored = "SELECT HEX(first_name) AS hex FROM users WHERE last_name = 'session'"
  t.deepEqual(await select(other, stored), [{ hex: Buffer.from('é😀').toString('hex').toUpperCase() }])
  t.deepEqual(await select(odd, "SELECT first_name FROM users WHERE last_name = 'session'"), [
    { first_name: 'é😀' },
  ])
  t.deepEqual(
    await select(odd, 'SELECT @@sql_safe_updates AS safe, @@sql_big_selects AS big, @@time_zone AS zone'),
    [{ safe: 0, big: 1, zone: '+00:00' }],
  )
  const rows = ['c', 'a', 'b'].map(end => ['a'.repeat(254) + end, 'sorted', 1])
  await odd.query('INSERT INTO users (first_name, last_name, version) VALUES ?', [rows])
  const sorted =
    "SELECT RIGHT(first_name, 1) AS end FROM users WHERE last_name = 'sorted' ORDER BY first_name, id"
  t.deepEqual(
    await select(odd, sorted),
    ['a', 'b', 'c'].map(end => ({ end })),
  )
  await odd.query('BEGIN')
  await odd.query('COMMIT')
  await odd.query("UPDATE users SET version = 2 WHERE last_name = 'session'")
  await odd.query('ROLLBACK')
  t.deepEqual(await select(other, "SELECT version FROM users WHERE last_name = 'session'"), [{ version: 2 }])
})

/** Longer than a slow machine needs for a statement. */
const SILENCE_MS = 3000

/**
 * Opens a database of one connection through a proxy that can drop everything.
 * @returns `silence` begins to drop; `end` resolves with the error with which the connection ends
 */
async function openSilenceable(t: ExecutionContext) {
  let isSilent = false
  const clients = new Set<Socket>()
  const proxy = await openTcpProxy(url, (_to, _bytes, client) => {
    clients.add(client)
    return !isSilent
  })
  t.teardown(() => proxy.close())
  const through = openSilent({
    url: throughProxy(url, proxy.port),
    poolMax: 1,
    queryTimeoutMs: SILENCE_MS,
  })
  await through.query('SELECT 1', [])
  const [end] = [...clients].map(client => once(client, 'close').catch((error: unknown) => error))
  const silence = () => {
    isSilent = true
  }
  return { through, silence, end }
}

test.serial('pool: a silent connection is reset, so that the server receives nothing later', async t => {
  const { through, silence, end } = await openSilenceable(t)
  t.teardown(() => through.close())
  silence()
  const error: unknown = await through.query('SELECT 1', []).catch((error: unknown) => error)
  t.like(error, { code: 'unavailable', cause: { message: `the database sent nothing for ${SILENCE_MS} ms` } })
  t.like(await end, { code: 'ECONNRESET' })
})

test.serial('pool: an answer that arrives during a stall of the service is read', async t => {
  const stalled = open(t, { queryTimeoutMs: 1000 })
  await stalled.query('SELECT 1', [])
  const answer = stalled.query('SELECT SLEEP(0.01) AS slept', [])
  // With an open connection, the statement is sent before the immediate runs.
  await setImmediate()
  stall(2500)
  t.deepEqual(await answer, [{ slept: 0 }])
})

test.serial(
  'pool: a statement that is sent when its connection has been idle for too long succeeds',
  async t => {
    const idle = open(t, { poolMax: 1 })
    const { client } = idle.knex
    const connection = await client.acquireConnection()
    t.teardown(() => client.releaseConnection(connection))
    const closed = once(connection.stream, 'close')
    connection.stream.emit('timeout')
    const answer = connection.promise().query('SELECT SLEEP(0.1) AS slept')
    t.deepEqual((await Promise.race([answer, closed]))[0], [{ slept: 0 }])
  },
)

test.serial(
  'pool: a server that is silent while a connection is closed does not end the process',
  async t => {
    const { through, silence, end } = await openSilenceable(t)
    silence()
    await through.close()
    t.like(await end, { code: 'ECONNRESET' })
  },
)

test.serial('pool: an idle connection is closed properly: the server would log a reset', async t => {
  const clients = new Set<Socket>()
  let isClosed = false
  const proxy = await openTcpProxy(url, (to, bytes, client) => {
    clients.add(client)
    // The last packet of the protocol, COM_QUIT.
    if (to === 'server' && bytes.equals(Buffer.from([1, 0, 0, 0, 1]))) isClosed = true
    return true
  })
  t.teardown(() => proxy.close())
  const through = open(t, { url: throughProxy(url, proxy.port), queryTimeoutMs: 6000 })
  await through.query('SELECT 1', [])
  await Promise.all([...clients].map(client => once(client, 'close').catch(() => {})))
  t.true(isClosed)
})

test.serial('pool: the reason is known of a connection that is not established', async t => {
  // It accepts connections, and is silent.
  const server = net.createServer()
  const port = await listenOnFreePort(server)
  const through = open(t, { url: throughProxy(url, port), acquireTimeoutMs: 1000 })
  const error: unknown = await through.query('SELECT 1', []).catch((error: unknown) => error)
  t.like(error, { code: 'unavailable', cause: { code: 'ETIMEDOUT' } })
  server.close()
})

/** Opens a database of one connection through a proxy. */
async function openThroughProxy(queryTimeoutMs = config.database.queryTimeoutMs) {
  const mysqlProxy = await openMysqlProxy(url)
  const through = openSilent({ url: mysqlProxy.url, poolMax: 1, queryTimeoutMs })
  const close = async () => {
    await through.close()
    mysqlProxy.proxy.close()
  }
  return { ...mysqlProxy, through, close }
}

test.serial('pool: a connection whose server accepts no writes any more is replaced', async t => {
  const { arm, struck, through, close } = await openThroughProxy()
  const connectionId = async () => (await through.query('SELECT CONNECTION_ID() AS id', []))[0]?.id
  const insertSql = 'insert INTO users (version) VALUES (1)'
  const writes = [
    () => through.query(insertSql, []),
    () => through.transaction(trx => trx.execute(insertSql, [])),
  ]
  for (const errno of [1290, 1836, 1792, 1047, 1180, 3032, 3098, 3100, 3796, 3797])
    for (const write of writes) {
      const before = await connectionId()
      arm(/insert/, { errno, sqlState: 'HY000' })
      await t.throwsAsync(write(), isUnavailable)
      t.is(struck(), 1)
      t.not(await connectionId(), before)
    }
  await close()
})

/** Creates an account for the test. */
async function createAccount(t: ExecutionContext) {
  const account = `test_${randomBytes(6).toString('hex')}`
  const admin = mysql.createConnection(url).promise()
  t.teardown(async () => {
    await admin.query(`DROP USER ${account}@'%'`)
    admin.destroy()
  })
  // Without a password: MySQL would ask for it in a way that depends on the kind of socket.
  await admin.query(`CREATE USER ${account}@'%'`)
  return {
    url: Object.assign(new URL(url), { username: account, password: '' }).href,
    grant: (privilege: string) =>
      admin.query(`GRANT ${privilege} ON ${new URL(url).pathname.slice(1)}.* TO ${account}@'%'`),
    alter: (change: string) => admin.query(`ALTER USER ${account}@'%' ${change}`),
  }
}

test.serial('pool: a privilege that is granted later counts at once', async t => {
  const account = await createAccount(t)
  await account.grant('SELECT')
  const limited = open(t, { url: account.url, poolMax: 1 })
  const insertSql = "INSERT INTO users (first_name, last_name, version) VALUES ('granted', 'later', 1)"
  const insert = () => limited.transaction(trx => trx.execute(insertSql, []))
  await t.throwsAsync(insert(), isUnavailable)
  await account.grant('INSERT')
  await t.notThrowsAsync(insert())
})

test.serial('pool: an account that is locked, or whose password has expired, is unavailable', async t => {
  for (const change of ['ACCOUNT LOCK', 'PASSWORD EXPIRE']) {
    const account = await createAccount(t)
    await account.grant('ALL')
    const barred = open(t, { url: account.url })
    // The connection of the probe stays open.
    await barred.probe()
    await account.alter(change)
    await t.throwsAsync(barred.query('SELECT 1', []), isUnavailable, change)
    t.is(barred.downSinceMs(), undefined)
  }
})

test.serial('transaction: repeated if a schema change or a conflict between nodes has ended it', async t => {
  const { arm, struck, through, close } = await openThroughProxy()
  for (const [errno, statement] of [
    [1412, /insert/],
    [3101, /COMMIT/],
    [1213, /COMMIT/],
    [1180, /COMMIT/],
  ] as const) {
    // The message of MySQL for 1180, which has other causes too.
    const message = "Got error 149 - 'Lock deadlock; Retry transaction' during COMMIT"
    arm(statement, { errno, sqlState: 'HY000', message })
    await through.transaction(trx =>
      trx.execute('insert INTO users (last_name, version) VALUES (?, 1)', [`${errno}`]),
    )
    t.is(struck(), 1)
    t.is((await database.query('SELECT id FROM users WHERE last_name = ?', [`${errno}`])).length, 1)
    await database.knex('users').delete()
  }
  await close()
})

test.serial('pool: an interrupted UPDATE of several tables is unavailable', async t => {
  const { arm, through, close } = await openThroughProxy()
  arm(/SELECT 1/, { errno: 1105, sqlState: 'HY000' })
  await t.throwsAsync(through.query('SELECT 1', []), isUnavailable)
  await close()
})

const readOnly = { errno: 1290, sqlState: 'HY000' }
const beginsToWrite = /START TRANSACTION READ WRITE/

/**
 * Opens a database through two proxies, as two hosts of one URL. On a slow machine, the second one can get a connection, because it is
 * tried before the first one has answered.
 */
async function openTwoHosts() {
  const [first, second] = [await openMysqlProxy(url), await openMysqlProxy(url)]
  const hosts = `127.0.0.1:${first.proxy.port},127.0.0.1:${second.proxy.port}`
  const lines: string[] = []
  const log = pino({ base: null }, { write: line => lines.push(JSON.parse(line).msg) })
  const both = createDatabase(
    { ...config.database, url: first.url.replace(`127.0.0.1:${first.proxy.port}`, hosts) },
    log,
  )
  const close = async () => {
    await both.close()
    for (const { proxy } of [first, second]) proxy.close()
  }
  /** Resolves with the host that a new statement reaches. */
  const current = async () => {
    for (const { arm } of [first, second]) arm(/SELECT 7/, 'no rows')
    await both.knex.raw('SELECT 7')
    const reached = [first, second].map(({ struck }) => struck())
    for (const { disarm } of [first, second]) disarm()
    return ['first', 'second'][reached.indexOf(1)]
  }
  return { first, second, both, lines, current, close }
}

test.serial('hosts: a connection goes to the first host that answers and accepts writes', async t => {
  const { first, both, current, close } = await until(async () => {
    const hosts = await openTwoHosts()
    if ((await hosts.current()) === 'first') return hosts
    await hosts.close()
    return false
  })
  first.proxy.refuse()
  await t.throwsAsync(both.query('SELECT 1', []), isUnavailable)
  t.is(await current(), 'second')
  await close()
  const other = await openTwoHosts()
  other.first.arm(beginsToWrite, readOnly, Number.POSITIVE_INFINITY)
  await other.both.query('SELECT 1', [])
  t.true(other.first.struck() > 0)
  await until(() => other.first.proxy.count() === 0)
  other.first.disarm()
  t.is(await other.current(), 'second')
  await other.close()
})

test.serial('hosts: all connections leave a server that accepts no writes any more', async t => {
  const { first, both, current, close } = await openTwoHosts()
  const three = Array.from({ length: 3 }, () => both.query('SELECT SLEEP(0.2)', []))
  await Promise.all(three)
  // A query can have used the connection of another one while its own was still being opened.
  await until(() => both.pool().free === 3)
  await both.probe()
  first.arm(beginsToWrite, readOnly, Number.POSITIVE_INFINITY)
  await both.probe()
  first.disarm()
  // These connections have not met the error themselves.
  t.is(both.pool().free, 3)
  first.arm(beginsToWrite, readOnly, Number.POSITIVE_INFINITY)
  await both.query('SELECT 1', [])
  first.disarm()
  t.is(await current(), 'second')
  await close()
})

test.serial('probe: a server that accepts no writes, or has left its cluster, cannot serve', async t => {
  for (const errno of [1290, 1047]) {
    const { first, second, both, lines, close } = await openTwoHosts()
    await both.probe()
    t.is(both.downSinceMs(), undefined)
    for (const { arm } of [first, second])
      arm(beginsToWrite, { ...readOnly, errno }, Number.POSITIVE_INFINITY)
    for (let n = 0; n < 3; n++) {
      await both.probe()
      t.is(typeof both.downSinceMs(), 'number')
    }
    for (let n = 0; n < 3; n++) await t.throwsAsync(both.query('SELECT 1', []), isUnavailable)
    for (const { disarm } of [first, second]) disarm()
    await both.probe()
    t.is(both.downSinceMs(), undefined)
    t.deepEqual(lines, ['database unreachable', 'database reachable again'])
    await close()
  }
})

test.serial('probe: a server that answers no statement of a new connection is silent', async t => {
  const first = await openMysqlProxy(url)
  first.arm(/SHOW VARIABLES/, 'no answer', Number.POSITIVE_INFINITY)
  const reasons: unknown[] = []
  const warnings = pino({ level: 'warn' }, { write: line => reasons.push(JSON.parse(line).reason) })
  const silent = createDatabase({ ...config.database, url: first.url }, warnings)
  await silent.probe()
  t.deepEqual(reasons, ['no connection to the database was ready after 2000 ms'])
  await silent.close()
  await first.proxy.close()
})

test.serial(
  'probe: a connection that its server has closed during a stall of the service is no outage',
  async t => {
    const lines: unknown[] = []
    const warnings = pino({ level: 'warn' }, { write: line => lines.push(JSON.parse(line)) })
    const stalled = createDatabase({ ...config.database, url }, warnings)
    t.teardown(() => stalled.close())
    await stalled.probe()
    // From here, and from a timer as in a worker, the next immediate runs after what has arrived is read.
    await setImmediate()
    // This process waits for another one, which closes the connection of the probe.
    execFileSync(process.execPath, ['--input-type=module', '-e', closeOtherSessions], {
      env: { ...process.env, DATABASE_URL: url },
    })
    await stalled.probe()
    t.deepEqual(lines, [])
  },
)

test.serial(
  'hosts: after an outage, a statement does not wait long for a server that is still silent',
  async t => {
    const { first, second, both, lines, close } = await openTwoHosts()
    second.proxy.refuse()
    await both.probe()
    first.arm(/SELECT 8/, 'no answer')
    const held = both.query('SELECT 8', []).catch((error: unknown) => error)
    await until(() => first.struck() === 1)
    second.proxy.open()
    first.arm(beginsToWrite, 'no answer', Number.POSITIVE_INFINITY)
    await both.probe()
    // It reaches the second host.
    await both.probe()
    t.deepEqual(lines, ['database unreachable', 'database reachable again'])
    t.like(await held, { code: 'unavailable', cause: { message: 'the database sent nothing for 2000 ms' } })
    await close()
  },
)

test.serial(
  'hosts: a probe that is not answered does not end a statement of the server that serves',
  async t => {
    const { first, second, both, lines, close } = await openTwoHosts()
    second.proxy.refuse()
    await both.probe()
    const slow = both.query('SELECT SLEEP(5) AS slept', [])
    first.arm(beginsToWrite, 'no answer')
    await both.probe()
    await both.probe()
    t.deepEqual(lines, ['database unreachable', 'database reachable again'])
    t.deepEqual(await slow, [{ slept: 0 }])
    await close()
  },
)

test.serial('probe: a schema that demands newer code cannot be served', async t => {
  const { both, lines, close } = await openTwoHosts()
  const connection = () => both.query('SELECT CONNECTION_ID() AS id', [])
  const before = await connection()
  t.deepEqual(await connection(), before)
  await database.knex('schema_info').update({ min_code_version: 999 })
  for (let n = 0; n < 3; n++) {
    await both.probe()
    t.is(typeof both.downSinceMs(), 'number')
  }
  await database.knex('schema_info').update({ min_code_version: 2 })
  await both.probe()
  t.is(both.downSinceMs(), undefined)
  t.deepEqual(lines, ['database unreachable', 'database reachable again'])
  // A connection from before the outage is not used again.
  t.notDeepEqual(await connection(), before)
  await close()
})

test.serial('pool: the server releases the locks of a node that vanished during a transaction', async t => {
  const { proxy, through, close } = await openThroughProxy(1000)
  const row = { first_name: 'held', last_name: 'row', version: 1 }
  const [id] = await database.knex('users').insert(row)
  const vanished = through.transaction(async trx => {
    await trx.query('SELECT id FROM users WHERE id = ? FOR UPDATE', [id])
    proxy.block()
    await trx.execute('UPDATE users SET version = 2 WHERE id = ?', [id])
  })
  await t.throwsAsync(vanished, isUnavailable)
  const update = () =>
    database.transaction(trx => trx.execute('UPDATE users SET version = 3 WHERE id = ?', [id]))
  t.is((await update()).affectedRows, 1)
  await close()
})

test.serial(
  'pool: the server ends a statement that waits for a table after its client has given up',
  async t => {
    const [holder, observer] = [mysql.createConnection(url).promise(), mysql.createConnection(url).promise()]
    t.teardown(() => [holder, observer].map(connection => connection.destroy()))
    await holder.query('LOCK TABLES count_changes WRITE')
    const impatient = openSilent({ queryTimeoutMs: 500 })
    const write = impatient.transaction(trx => trx.execute('DELETE FROM count_changes WHERE id = 0', []))
    await t.throwsAsync(write, isUnavailable)
    const isWaiting = ({ info }: Session) => info?.startsWith('DELETE FROM count_changes') === true
    await until(async () => !(await sessionsOf(url, observer)).some(isWaiting))
    await holder.query('UNLOCK TABLES')
    await impatient.close()
  },
)
