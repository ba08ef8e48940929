// The private MySQL and Redis: preparation, start, stop, kill and restart of the real servers.
import { mkdir, rm, stat, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { dirname, join } from 'node:path'
import test from 'ava'
import { Redis } from 'ioredis'
import { prepareMysql } from '../../src/cli/private-servers/mysql.ts'
import { installMissing } from '../../src/cli/private-servers/programs.ts'
import { prepareRedis } from '../../src/cli/private-servers/redis.ts'
import { runProgram } from '../../src/cli/private-servers/run-program.ts'
import { runServer } from '../../src/cli/private-servers/server.ts'
import { redisUrl } from '../../src/config/redis-url.ts'
import { fill, openCache } from '../support/cache.ts'
import { executeOn } from '../support/execute.ts'
import { folder } from '../support/folder.ts'

const prepare = (base: string, durable = false) => prepareMysql('', { base, durable, print: () => {} })

const make = ['CREATE DATABASE kept', 'CREATE TABLE kept.notes (note VARCHAR(20))']
const add = (note: string) => `INSERT INTO kept.notes VALUES ('${note}')`
const read = 'SELECT note FROM kept.notes ORDER BY note'

test.serial('mysql: committed data survive a stop and a kill', async t => {
  const base = folder(t)
  const first = await prepare(base, true)
  let running = await runServer(first)
  t.teardown(() => running.stop())
  await executeOn(first.url, ...make, add('one'))
  await running.stop()

  const again = await prepare(base, true)
  t.is(again.url, first.url)
  running = await runServer(again)
  await executeOn(again.url, add('two'))
  await running.stop('SIGKILL')

  running = await runServer(await prepare(base, true))
  t.deepEqual(await executeOn(again.url, read), [{ note: 'one' }, { note: 'two' }])
  t.deepEqual(
    await executeOn(
      again.url,
      "SELECT @@innodb_flush_log_at_trx_commit AS log, CONCAT(@@innodb_doublewrite) IN ('ON', '1') AS pages",
    ),
    [{ log: 1, pages: 1 }],
  )
  await running.stop()
})

test.serial('mysql: an incomplete data folder is created again', async t => {
  const base = folder(t)
  const data = (await prepare(base)).args
    .find(arg => arg.startsWith('--datadir='))
    ?.slice('--datadir='.length)
  t.truthy(data)
  await rm(data ?? '', { recursive: true })
  await mkdir(`${data}.making`)
  await writeFile(join(`${data}.making`, 'ibdata1'), 'incomplete')
  const server = await prepare(base)
  const running = await runServer(server)
  t.teardown(() => running.stop())
  t.deepEqual(await executeOn(server.url, 'SELECT 1 AS one'), [{ one: 1 }])
  await t.throwsAsync(stat(`${data}.making`), { code: 'ENOENT' })
  await running.stop()
})

test.serial('mysql: listens only on a socket that only its owner can reach', async t => {
  const base = folder(t)
  const server = await prepare(base)
  const running = await runServer(server)
  t.teardown(() => running.stop())
  t.deepEqual(await executeOn(server.url, 'SELECT @@skip_networking AS off'), [{ off: 1 }])
  const socket = new URL(server.url).searchParams.get('socketPath') ?? ''
  t.is((await stat(dirname(socket))).mode & 0o777, 0o700)
  const folders = server.args.filter(arg => arg.startsWith('--datadir=')).map(arg => arg.slice(10))
  for (const path of folders) t.is((await stat(path)).mode & 0o777, 0o700)
  await running.stop()
})

test.serial('sockets: too long a path moves them to a fixed folder elsewhere', async t => {
  const base = join(folder(t), 'deep/'.repeat(20), 'ünïcode and space')
  const server = await prepare(base)
  const socket = new URL(server.url).searchParams.get('socketPath') ?? ''
  t.teardown(() => rm(dirname(socket), { recursive: true, force: true }))
  t.true(Buffer.byteLength(socket) < 104)
  t.is((await stat(dirname(socket))).mode & 0o777, 0o700)
  const running = await runServer(server)
  t.teardown(() => running.stop())
  t.deepEqual(await executeOn(server.url, 'SELECT 1 AS one'), [{ one: 1 }])
  await running.stop()
  t.is((await prepare(base)).url, server.url)
})

test.serial('redis: the cache reaches a socket in a folder whose name has any characters', async t => {
  const base = join(folder(t), 'ü #1, 50% C?')
  const server = await prepareRedis({ base })
  t.true(server.args.some(arg => arg === join(base, 'run', 'redis.sock')))
  const running = await runServer(server)
  t.teardown(() => running.stop())
  const { cache } = await openCache(t, redisUrl.parse(server.url))
  await fill(cache, ['key:'])
})

test.serial('sockets: a folder that other users can enter is rejected', async t => {
  const base = folder(t)
  await mkdir(join(base, 'run'), { mode: 0o755 })
  await t.throwsAsync(prepareRedis({ base }), { message: /must be a folder that belongs to this user/ })
})

test.serial('mysql: a data folder is used only by the product that created it', async t => {
  for (const [data, name] of [
    ['mysql', 'MySQL'],
    ['mariadb', 'MariaDB'],
  ] as const) {
    const base = folder(t)
    await mkdir(join(base, data))
    // If the product is installed, it is chosen. Otherwise the message names it.
    const outcome = await prepare(base).then(
      found => found.title,
      error => String(error),
    )
    t.regex(outcome, new RegExp(`^${name} [0-9.]+$|needs ${name}, which cannot be found`))
  }
})

test.serial(
  'programs: a missing program is reported with the packages to install and the variable to set',
  async t => {
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
    const remedy = /: run sudo apt-get install \S+ some-server \(or brew install some\), or set SOME_URL$/
    // Without apt-get.
    process.env.PATH = ''
    const none = await t.throwsAsync(installMissing([program], t.log))
    t.regex(none?.message ?? '', /^Some Server cannot be found: /)
    t.regex(none?.message ?? '', remedy)
    if (process.getuid?.() !== 0) return
    // With an apt-get that has no network.
    const programs = folder(t)
    await writeFile(join(programs, 'apt-get'), '#!/bin/sh\necho "E: no network" >&2\nexit 100\n', {
      mode: 0o755,
    })
    process.env.PATH = `${programs}:${PATH}`
    const failed = await t.throwsAsync(installMissing([program], t.log))
    t.regex(failed?.message ?? '', /^Some Server cannot be installed \(.*E: no network\): /)
    t.regex(failed?.message ?? '', remedy)
  },
)

test.serial('runProgram: the error begins with the first error lines, which have the cause', async t => {
  // What MariaDB prints if the disk is full.
  const lines = [
    '[Note] Starting',
    "[ERROR] InnoDB: Could not set the file size of './ibdata1'. Probably out of disk space",
    '[ERROR] InnoDB: Database creation was aborted with error Generic error.',
    "[ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE failed.",
    '[ERROR] Unknown/unsupported storage engine: InnoDB',
    '[ERROR] Aborting',
  ]
  const script = 'printf "%s\\n" "$@" >&2; exit 1'
  const { message } = await t.throwsAsync(runProgram('/bin/sh', ['-c', script, 'sh', ...lines]))
  t.is(message, `/bin/sh failed: ${lines.slice(1, 4).join(' ')}`)
})

test.serial('runServer: the error contains the log of a server that does not start', async t => {
  const base = folder(t)
  const server = await prepare(base)
  await t.throwsAsync(runServer({ ...server, args: [...server.args, '--no-such-setting'] }), {
    message: /exited with \d+:[\s\S]*no-such-setting/,
  })
})

test.serial(
  'redis: evicts least recently used keys, does not persist data, and listens only on a socket',
  async t => {
    const base = folder(t)
    const server = await prepareRedis({ base })
    const socket = decodeURI(new URL(server.url).pathname)
    let running = await runServer(server)
    t.teardown(() => running.stop())
    let redis = new Redis(socket)
    t.teardown(() => redis.disconnect())
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
      'the socket does not accept connections after the stop',
    )
  },
)
