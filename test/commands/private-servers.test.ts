// The private MySQL and Redis, for real: made, started, stopped, killed, started again.
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { Redis } from 'ioredis'
import mysql from 'mysql2/promise'
import { prepareMysql } from '../../src/cli/private-servers/mysql.ts'
import { installMissing } from '../../src/cli/private-servers/programs.ts'
import { prepareRedis } from '../../src/cli/private-servers/redis.ts'
import { runServer } from '../../src/cli/private-servers/server.ts'

async function temporaryFolder(t: ExecutionContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'users-api-private-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const prepare = (base: string, durable = false) => prepareMysql('', { base, durable, print: () => {} })

/** Runs statements on the server; gives the rows of the last one. */
async function query(url: string, ...statements: string[]): Promise<unknown> {
  const connection = await mysql.createConnection(url)
  try {
    let rows: unknown
    for (const statement of statements) [rows] = await connection.query(statement)
    return rows
  } finally {
    await connection.end()
  }
}

const make = ['CREATE DATABASE kept', 'CREATE TABLE kept.notes (note VARCHAR(20))']
const add = (note: string) => `INSERT INTO kept.notes VALUES ('${note}')`
const read = 'SELECT note FROM kept.notes ORDER BY note'

test.serial('what MySQL has stored is there after a stop and after a kill', async t => {
  const base = await temporaryFolder(t)
  const first = await prepare(base, true)
  let running = await runServer(first)
  await query(first.url, ...make, add('one'))
  await running.stop()

  const again = await prepare(base, true)
  t.is(again.url, first.url)
  running = await runServer(again)
  await query(again.url, add('two'))
  await running.stop('SIGKILL')

  running = await runServer(await prepare(base, true))
  t.deepEqual(await query(again.url, read), [{ note: 'one' }, { note: 'two' }])
  t.deepEqual(
    await query(
      again.url,
      "SELECT @@innodb_flush_log_at_trx_commit AS log, CONCAT(@@innodb_doublewrite) IN ('ON', '1') AS pages",
    ),
    [{ log: 1, pages: 1 }],
  )
  await running.stop()
})

test.serial('a data folder that was only half made is made anew', async t => {
  const base = await temporaryFolder(t)
  const whole = (await prepare(base)).args
    .find(arg => arg.startsWith('--datadir='))
    ?.slice('--datadir='.length)
  t.truthy(whole)
  await rm(whole ?? '', { recursive: true })
  await mkdir(`${whole}.making`)
  await writeFile(join(`${whole}.making`, 'ibdata1'), 'half')
  const server = await prepare(base)
  const running = await runServer(server)
  t.deepEqual(await query(server.url, 'SELECT 1 AS one'), [{ one: 1 }])
  await t.throwsAsync(stat(`${whole}.making`), { code: 'ENOENT' })
  await running.stop()
})

test.serial('MySQL listens on a socket that only its owner reaches, and on no port', async t => {
  const base = await temporaryFolder(t)
  const server = await prepare(base)
  const running = await runServer(server)
  t.deepEqual(await query(server.url, 'SELECT @@skip_networking AS off'), [{ off: 1 }])
  const socket = new URL(server.url).searchParams.get('socketPath') ?? ''
  t.is((await stat(dirname(socket))).mode & 0o777, 0o700)
  const folders = server.args.filter(arg => arg.startsWith('--datadir=')).map(arg => arg.slice(10))
  for (const folder of folders) t.is((await stat(folder)).mode & 0o777, 0o700)
  await running.stop()
})

test.serial('a folder too deep for a socket has its sockets elsewhere, always in the same place', async t => {
  const base = join(await temporaryFolder(t), 'deep/'.repeat(20), 'ünïcode and space')
  const server = await prepare(base)
  const socket = new URL(server.url).searchParams.get('socketPath') ?? ''
  t.teardown(() => rm(dirname(socket), { recursive: true, force: true }))
  t.true(Buffer.byteLength(socket) < 104)
  t.is((await stat(dirname(socket))).mode & 0o777, 0o700)
  const running = await runServer(server)
  t.deepEqual(await query(server.url, 'SELECT 1 AS one'), [{ one: 1 }])
  await running.stop()
  t.is((await prepare(base)).url, server.url)
})

test.serial('a socket folder that others may enter is refused', async t => {
  const base = await temporaryFolder(t)
  await mkdir(join(base, 'run'), { mode: 0o755 })
  await t.throwsAsync(prepareRedis({ base }), { message: /must be a folder that belongs to this user/ })
})

test.serial('data of the one are never given to the other', async t => {
  for (const [folder, name] of [
    ['mysql', 'MySQL'],
    ['mariadb', 'MariaDB'],
  ] as const) {
    const base = await temporaryFolder(t)
    await mkdir(join(base, folder))
    // Where both are installed, the right one is found; else the message says what is missing.
    const outcome = await prepare(base).then(
      found => found.title,
      error => String(error),
    )
    t.regex(outcome, new RegExp(`^${name} [0-9.]+$|needs ${name}, which cannot be found`))
  }
})

test.serial('a program that cannot be had: what to install, or to set', async t => {
  const { PATH } = process.env
  t.teardown(() => {
    process.env.PATH = PATH
  })
  const program = {
    title: 'Some Server',
    names: ['no-such-server'],
    debianPackage: 'some-server',
    brewFormula: 'some',
    variable: 'SOME_URL',
  }
  const remedy = /sudo apt-get install \S+ some-server \(or brew install some\), or set SOME_URL$/
  // No apt-get.
  process.env.PATH = ''
  const none = await t.throwsAsync(installMissing([program], t.log))
  t.regex(none?.message ?? '', /^Some Server cannot be found: /)
  t.regex(none?.message ?? '', remedy)
  if (process.getuid?.() !== 0) return
  // An apt-get that has no network.
  const folder = await temporaryFolder(t)
  await writeFile(join(folder, 'apt-get'), '#!/bin/sh\necho "E: no network" >&2\nexit 100\n', { mode: 0o755 })
  process.env.PATH = `${folder}:${PATH}`
  const failed = await t.throwsAsync(installMissing([program], t.log))
  t.regex(failed?.message ?? '', /^Some Server cannot be installed \(.*E: no network\): /)
  t.regex(failed?.message ?? '', remedy)
})

test.serial('a server that cannot run says why', async t => {
  const base = await temporaryFolder(t)
  const server = await prepare(base)
  await t.throwsAsync(runServer({ ...server, args: [...server.args, '--no-such-setting'] }), {
    message: /ended with \d+:[\s\S]*no-such-setting/,
  })
})

test.serial(
  'Redis is a cache on a socket: it forgets what was used least, and everything with a stop',
  async t => {
    const base = await temporaryFolder(t)
    const server = await prepareRedis({ base })
    const socket = decodeURI(new URL(server.url).pathname)
    let running = await runServer(server)
    let redis = new Redis(socket)
    await redis.set('key', 'value')
    const settings = await Promise.all(
      ['port', 'maxmemory-policy', 'save'].map(name => redis.config('GET', name)),
    )
    t.deepEqual(settings.flat(), ['port', '0', 'maxmemory-policy', 'allkeys-lru', 'save', ''])
    t.is((await stat(socket)).mode & 0o777, 0o700)
    redis.disconnect()
    await running.stop()

    running = await runServer(await prepareRedis({ base }))
    redis = new Redis(socket)
    t.is(await redis.get('key'), null)
    redis.disconnect()
    await running.stop()
    await t.throwsAsync(
      new Promise((_, reject) => createConnection(socket).once('error', reject)),
      undefined,
      'nobody listens any more',
    )
  },
)
