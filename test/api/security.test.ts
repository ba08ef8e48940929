// The guarantees of .github/SECURITY.md: headers, TLS, database privileges, secrets, file modes and read-only control ports.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls from 'node:tls'
import test from 'ava'
import mysql from 'mysql2/promise'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectOk } from '../support/expect.ts'
import { createClient, sendRaw } from '../support/http.ts'
import { check, createOperator } from '../support/operator.ts'
import { ask, createDatabase, startService } from '../support/service.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'

const secret = 'correct-horse-battery-staple'
const redisSecret = 'another-secret-of-redis'
const folder = await mkdtemp(join(tmpdir(), 'users-api-security-'))

/** Creates the database user of config/README.md, which can only read and write rows of one database. */
async function createDatabaseUser(database: string): Promise<string> {
  const name = new URL(database).pathname.slice(1)
  const root = await mysql.createConnection(database)
  await root.query(`CREATE USER '${name}'@'localhost' IDENTIFIED BY '${secret}'`)
  await root.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${name}.* TO '${name}'@'localhost'`)
  await root.end()
  const url = new URL(database)
  url.username = name
  url.password = secret
  return url.href
}

const migrated = await createDatabase()
const serving = await createDatabaseUser(migrated)
// Redis is unreachable at times, so that the service logs connection errors.
const proxy = await openTcpProxy(process.env.TEST_REDIS_URL ?? migrated)
const { service, api, close } = await openApi({
  database: serving,
  workers: 2,
  config: { log: { level: 'trace', requests: true }, stateFile: join(folder, 'var', 'state.json') },
  env: { REDIS_URL: `redis://:${redisSecret}@127.0.0.1:${proxy.port}` },
})

test.after.always(async t => {
  proxy.close()
  await close(t)
  await rm(folder, { recursive: true })
})

test.serial('security: the service needs no privilege to change the schema', async t => {
  const user = await api.create('/v1/users', { first_name: 'Limited', last_name: 'Privileges' })
  const group = await api.create('/v1/groups', { name: 'Limited' })
  const key = { 'idempotency-key': 'once', 'content-type': 'application/json' }
  expectOk(t, await api.send('POST', '/v1/users', key, '{"first_name":"Only","last_name":"Once"}'))
  expectOk(t, await api.post('/v1/users', { users: [{ first_name: 'a', last_name: 'b' }] }))
  expectOk(t, await api.post(`/v1/users/${user}/groups`, { id: group }))
  expectOk(t, await api.get('/v1/users?include=groups&groups[*].name=Limited&sort=-last_name'))
  expectOk(t, await api.put(`/v1/users/${user}`, { first_name: 'Replaced' }))
  expectOk(t, await api.patch(`/v1/groups/${group}`, { name: 'Renamed' }))
  expectOk(t, await api.delete(`/v1/users/${user}/groups/${group}`))
  expectOk(t, await api.delete(`/v1/users/${user}`))
  expectOk(t, await api.delete(`/v1/groups/${group}`))
  const connection = await mysql.createConnection(serving)
  for (const sql of ['DROP TABLE users', 'CREATE TABLE x (id INT)', 'SELECT * FROM mysql.user'])
    await t.throwsAsync(connection.query(sql), { message: /denied/ }, sql)
  await connection.end()
})

test.serial(
  'security: every response has the security headers and does not name the server software',
  async t => {
    const get = (path: string, headers?: Record<string, string>) => api.get(path, headers)
    const raw = async (text: string) => (await sendRaw(service.url, text)).answer
    const answers = [
      await get('/v1/users'),
      await api.send('HEAD', '/v1/users'),
      await api.send('OPTIONS', '/v1/users'),
      await get('/v1/users/999999'),
      await get('/nothing'),
      await get('/v1/users?nothing=1'),
      await get('/v1/users', { accept: 'text/html' }),
      await get(`/v1/users?first_name=${'a'.repeat(10_000)}`),
      await api.post('/v1/users', '{'),
      await raw('GARBAGE\r\n\r\n'),
      await raw(`GET /${'a'.repeat(100_000)} HTTP/1.1\r\n\r\n`),
      await raw('GET /v1/users HTTP/1.1\r\nHost: a\r\nExpect: nothing\r\n\r\n'),
    ]
    const port = service.port('http') + 1
    for (const path of [
      '/',
      '/status',
      '/history',
      '/metrics',
      '/livez',
      '/readyz',
      '/healthcheck/http',
      '/healthcheck/nothing',
    ])
      answers.push({
        ...(await getFromControlPort(port, path)),
        get body(): never {
          throw new Error('unused')
        },
      })
    for (const answer of answers) {
      if (answer === undefined) throw new Error('the connection was closed without a response')
      const { status, headers } = answer
      t.is(headers['x-content-type-options'], 'nosniff', String(status))
      t.regex(String(headers['content-security-policy']), /^default-src 'none'; .*frame-ancestors 'none'/)
      t.is(headers['x-powered-by'], undefined)
      t.is(headers.server, undefined)
      if (status >= 400) t.is(headers['cache-control'], 'no-store')
    }
  },
)

async function getFromControlPort(port: number, path: string) {
  const client = createClient(`http://127.0.0.1:${port}`)
  const { status, headers, text } = await client.get(path)
  client.close()
  return { status, headers, text }
}

test.serial('security: TLS is 1.2 or newer, with forward secrecy and authenticated encryption', async t => {
  const handshake = (options: tls.ConnectionOptions) =>
    new Promise<string>(resolve => {
      const port = service.port('https')
      const socket = tls.connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options }, () => {
        resolve(`${socket.getProtocol()} ${socket.getCipher().standardName}`)
        socket.destroy()
      })
      socket.on('error', () => resolve('rejected'))
    })
  t.regex(await handshake({}), /^TLSv1.3 /)
  const old = { ciphers: 'ALL:@SECLEVEL=0', minVersion: 'TLSv1' } as const
  for (const maxVersion of ['TLSv1', 'TLSv1.1'] as const)
    t.is(await handshake({ ...old, maxVersion }), 'rejected')
  t.regex(
    await handshake({ ...old, maxVersion: 'TLSv1.2' }),
    /^TLSv1.2 TLS_ECDHE_\w+_(GCM|CHACHA20_POLY1305)_/,
  )
  // Each is the only cipher offered, and lacks forward secrecy, authenticated encryption or any encryption.
  for (const ciphers of ['AES128-SHA', 'AES128-GCM-SHA256', 'ECDHE-ECDSA-AES128-SHA', 'eNULL', 'aNULL'])
    t.is(await handshake({ ciphers: `${ciphers}:@SECLEVEL=0`, maxVersion: 'TLSv1.2' }), 'rejected', ciphers)
})

test.serial('security: logs, errors and status responses contain no secrets', async t => {
  const root = await mysql.createConnection(migrated)
  const name = new URL(migrated).pathname.slice(1)
  proxy.refuse()
  await root.query(`ALTER USER '${name}'@'localhost' IDENTIFIED BY 'another-password'`)
  const [rows] = await root.query<mysql.RowDataPacket[]>('SHOW PROCESSLIST')
  for (const row of rows) if (row.User === name) await root.query(`KILL ${row.Id}`).catch(() => {})
  const failing = await api.get('/v1/users')
  expectError(t, failing, 503, 'unavailable')
  await root.query(`ALTER USER '${name}'@'localhost' IDENTIFIED BY '${secret}'`)
  await root.end()
  proxy.open()
  expectOk(t, await api.get('/v1/users?include=groups'))
  const texts = [failing.text, service.log()]
  for (const path of ['/', '/status', '/history', '/metrics'])
    texts.push((await ask(service.controlUrl + path))?.text ?? '')
  await service.logLine(/database unreachable/)
  for (const text of texts) {
    t.false(text.includes(secret))
    t.false(text.includes(redisSecret))
    t.false(text.includes('PRIVATE KEY'))
  }
  const wrong = { DATABASE_URL: `mysql://a:${secret}@[`, REDIS_URL: `http://a:${redisSecret}@b` }
  const failure = await t.throwsAsync(startService({ database: migrated, env: wrong }))
  t.regex(failure?.message ?? '', /database\.url/)
  t.false(failure?.message.includes(secret) || failure?.message.includes(redisSecret))
})

test.serial('security: files on disk are readable only by their owner', async t => {
  await check(service.port('http') + 1, '/status')
  const operator = createOperator(service)
  await operator.run('drain', 'http')
  const stateFolder = join(folder, 'var')
  t.is((await stat(stateFolder)).mode & 0o777, 0o700)
  const files = readdirSync(stateFolder)
  t.deepEqual(files.sort(), ['self-signed.pem', 'state.json'])
  for (const file of files) t.is((await stat(join(stateFolder, file))).mode & 0o777, 0o600, file)
  await operator.run('resume', 'http')
})

test.serial('security: requests to a control port change nothing', async t => {
  const state = () => readFileSync(join(folder, 'var', 'state.json'), 'utf8')
  const before = { state: state(), workers: await service.workers() }
  const port = service.port('http') + 1
  const paths = [
    '/',
    '/status',
    '/drain',
    '/drain/http',
    '/reload',
    '/healthcheck/http',
    '/healthcheck/http?drain',
  ]
  for (const method of [
    'POST',
    'PUT',
    'PATCH',
    'DELETE',
    'OPTIONS',
    'TRACE',
    'PURGE',
    'LOCK',
    'MKCOL',
    'SEARCH',
  ])
    for (const path of paths) {
      const answer = await check(port, path, { method, headers: { 'x-http-method-override': 'GET' } })
      t.like(answer, { status: 405, code: 'method_not_allowed' }, `${method} ${path}`)
    }
  for (const path of paths.slice(2))
    t.true([200, 400].includes(Number(Object(await check(port, path)).status)), path)
  t.deepEqual({ state: state(), workers: await service.workers() }, before)
  t.is((await ask(`${service.controlUrl}/healthcheck/https`))?.status, 200)
})

/** The file of a descriptor, or '' if the process has closed it since it was listed. */
function fileOf(pid: number | undefined, fd: string): string {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`)
  } catch {
    return ''
  }
}

const onLinux = process.platform === 'linux' ? test.serial : test.serial.skip
onLinux('security: the service listens only on its data and control ports', async t => {
  const inodes = new Set<string>()
  for (const pid of [service.supervisor.pid, ...(await service.workers())])
    for (const fd of readdirSync(`/proc/${pid}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(fileOf(pid, fd))?.[1]
      if (inode !== undefined) inodes.add(inode)
    }
  const listening = ['tcp', 'tcp6', 'udp', 'udp6'].flatMap(kind =>
    readFileSync(`/proc/net/${kind}`, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .map(line => line.trim().split(/\s+/))
      .filter(([, , remote = '', , , , , , , inode = '']) => /^0+:0000$/.test(remote) && inodes.has(inode))
      .map(([, local = '']) => Number.parseInt(local.split(':')[1] ?? '', 16)),
  )
  const ports = ['http', 'https'].map(label => service.port(label))
  t.deepEqual([...new Set(listening)].sort(), ports.flatMap(port => [port, port + 1]).sort())
})
