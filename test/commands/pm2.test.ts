// npm start, npm stop and npm run ops with a separate pm2 daemon and private servers.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { platform } from 'node:os'
import { join } from 'node:path'
import anyTest, { type ExecutionContext, type TestFn } from 'ava'
import { createClient } from '../support/http.ts'
import { createInstallation, type Installation } from '../support/installation.ts'
import { collectLog } from '../support/log.ts'
import { isAlive } from '../support/operator.ts'
import { claimPorts } from '../support/ports.ts'
import { connect } from '../support/raw.ts'
import { type Outcome, runToEnd } from '../support/run-to-end.ts'
import { ask, createDatabase, runFirst } from '../support/service.ts'
import { until } from '../support/until.ts'

const test = anyTest as TestFn<{ here: Installation }>

test.beforeEach(async t => {
  t.context.here = await createInstallation()
})
test.afterEach.always(t => t.context.here.remove())

/** The id of the process whose command line contains `word`. */
async function processOf(here: Installation, word: string): Promise<number> {
  const line = (await here.processes()).find(one => one.includes(word))
  return Number.parseInt(line ?? '', 10)
}

/**
 * The reply that an operator's command printed.
 * @throws Error with its exit code and standard error if there is none
 */
function replyOf({ code, stdout, stderr }: Outcome) {
  if (stdout === '') throw new Error(`no reply, exit code ${code}: ${stderr}`)
  return JSON.parse(stdout)
}

/** Whether a process without the right to listen on port 80 can be created. */
async function canDropRights(): Promise<boolean> {
  const firstUnprivileged = await readFile('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'utf8').catch(
    () => '0',
  )
  const setpriv = await runToEnd('setpriv', ['--version']).catch(() => undefined)
  return Number(firstUnprivileged) > 80 && setpriv?.code === 0
}

const alreadyRunning =
  'users-api: already running: if settings, .* have changed .*, run `npm stop`, then `npm start`'

/** Runs two starts at once: one starts the service, and the other waits for it. @returns what the first one has printed */
async function startAtOnce(t: ExecutionContext, here: Installation): Promise<string> {
  // Only Linux has the lock that the second one waits for.
  const starts = await Promise.all(platform() === 'linux' ? [here.start(), here.start()] : [here.start()])
  for (const { code, stdout, stderr } of starts) t.is(code, 0, stdout + stderr)
  const isFirst = ({ stdout }: Outcome) => stdout.includes('starting the service')
  const [first, ...more] = starts.filter(isFirst)
  t.deepEqual(more, [])
  if (first === undefined) throw new Error('no start has started the service')
  const waited = `^users-api: waiting for another npm start of this folder\n${alreadyRunning}$`
  for (const { stdout } of starts.filter(one => !isFirst(one))) t.regex(stdout, new RegExp(waited, 'm'))
  return first.stdout
}

/** Checks what the first start of an installation prints: its steps, the URLs, and commands to try. */
function expectStarted(t: ExecutionContext, { url, port }: Installation, stdout: string): void {
  const steps = [/creating a data folder for M/, /starting M/, /migrating the/, /starting the service/]
  for (const step of steps) t.regex(stdout, step)
  const ends = [` ${url}/v1/users`, ` ${url}/v1/docs`, ` http://127.0.0.1:${port + 1}/`]
  for (const end of [...ends, '/healthcheck/http', '/healthcheck/https'])
    t.regex(stdout, new RegExp(`${end}$`, 'm'))
  t.regex(stdout, /Try:\n {2}curl .*\n {2}npm run load .*\n {2}npm run ops /)
}

test.serial(
  'start and stop: a second start changes nothing, a stop leaves no process behind, the data remain',
  async t => {
    const { here } = t.context
    expectStarted(t, here, await startAtOnce(t, here))

    const client = createClient(here.url)
    const id = await client.create('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
    const supervisor = await processOf(here, 'supervisor.js')

    t.is((await here.ops('drain', 'http')).code, 0)
    const again = await here.start()
    t.is(again.code, 0)
    t.regex(again.stdout, new RegExp(`^${alreadyRunning}$`, 'm'))
    t.regex(again.stdout, /http is still in maintenance: npm run ops -- resume http\n$/)
    t.is(await processOf(here, 'supervisor.js'), supervisor)

    t.like(await here.run('dist/recount.js', ['--check']), {
      code: 0,
      stdout: 'users-api: all kept totals are right\n',
    })

    const elsewhere = await createInstallation()
    t.teardown(() => elsewhere.remove())
    const second = await elsewhere.start({ PM2_HOME: here.env.PM2_HOME })
    t.is(second.code, 1)
    t.regex(
      second.stderr,
      /already running, but from .* other `ports` .*`export PM2_HOME=\$PWD\/var\/pm2`\n$/,
    )

    const stopped = await here.stop()
    t.is(stopped.code, 0, stopped.stderr)
    t.deepEqual(await here.processes(), [])

    await writeFile(join(here.folder, 'var/state.json'), '{"maintenance": ')
    const damaged = await here.start({ REDIS_URL: 'redis://127.0.0.1:9' })
    t.is(damaged.code, 0)
    t.regex(damaged.stdout, /^users-api: Redis cannot be reached, so .*: start it, or correct REDIS_URL$/m)
    t.regex(damaged.stdout, /state\.json was damaged, so .*: npm run ops -- drain <label> /)
    t.is((await client.get(`/v1/users/${id}`)).body.id, id)
    t.is((await here.stop()).code, 0)
    t.deepEqual(await here.processes(), [])
    client.close()
  },
)

test.serial('stop and ops: report a service that is not running, and leave no process behind', async t => {
  const { here } = t.context
  const stopped = await here.stop()
  t.is(stopped.code, 0)
  t.regex(stopped.stdout, /^users-api: not running$/m)
  const status = await here.ops('status')
  t.is(status.code, 3)
  t.regex(status.stderr, /is not running/)
  t.deepEqual(await here.processes(), [])
})

test.serial('start: a failure prints one line with the remedy, and leaves no process behind', async t => {
  const { here } = t.context
  const fails = ({ code, stderr }: Outcome, expected: number, message: RegExp): void => {
    t.is(code, expected, stderr)
    t.regex(stderr, /^users-api: [^\n]*\n$/)
    t.regex(stderr, message)
  }
  const other = createServer().listen(here.port + 1, '127.0.0.1')
  await once(other, 'listening')
  const taken = await here.start()
  other.close()
  fails(
    taken,
    71,
    new RegExp(`:${here.port + 1} \\(control port of http\\).*; free that port, or choose others`),
  )

  fails(await here.start({ WORKERS: 'many', LOG_LEVEL: 'loud' }), 78, /2 errors\): .*workers.*log\.level/)
  fails(await here.start({ DATABASE_URL: 'postgres://x/y' }), 78, /DATABASE_URL\): .* starts with mysql:/)

  const url = new URL(process.env.TEST_DATABASE_URL ?? '')
  url.username = 'unknown-user'
  url.pathname = '/users'
  const servers = { DATABASE_URL: url.href, REDIS_URL: 'redis://127.0.0.1:9' }
  fails(
    await here.start(servers),
    1,
    /cannot be migrated \(Access denied.*\): correct DATABASE_URL, the settings of the server, or /,
  )

  const certificate = join(here.folder, 'package.json')
  const ports = [{ label: 'https', port: here.port, protocol: 'https', certificate, key: certificate }]
  fails(
    await here.start({
      ...servers,
      DATABASE_URL: await createDatabase(),
      NODE_CONFIG: JSON.stringify({ ports }),
    }),
    1,
    /: the service exited with code 78: .*the certificate of https cannot be used: its file has no certificate/,
  )

  const privileged = { label: 'http', port: 80, protocol: 'http' }
  await rm(join(here.folder, 'var'), { recursive: true, force: true })
  await writeFile(join(here.folder, 'var'), '')
  fails(
    await here.start(),
    1,
    /cannot write to .*\/var \(\w+\): make it a folder that this user can write to/,
  )
  await rm(join(here.folder, 'var'))

  const PM2_HOME = join(here.folder, 'package.json', 'pm2')
  for (const command of ['dist/start.js', 'dist/stop.js'])
    fails(
      await here.run(command, [], { PM2_HOME }),
      1,
      /pm2 cannot write to .*\/pm2 \(ENOTDIR\): make it .*, or run `export PM2_HOME=\$PWD\/var\/pm2` before every command/,
    )
  fails(
    await here.run('dist/stop.js', [], { PM2_HOME: join(here.folder, 'pm2-'.repeat(25)) }),
    1,
    /the path of pm2's folder .* is \d+ bytes too long for its Unix sockets: set PM2_HOME to /,
  )

  if (await canDropRights()) {
    const refused = await here.startUnprivileged({ NODE_CONFIG: JSON.stringify({ ports: [privileged] }) })
    fails(refused, 71, /:80 .*permission denied; give node .* or choose ports of at least 1024/)
  } else t.log('skipped: all users can listen on ports below 1024, or setpriv is missing')

  await writeFile(join(here.folder, 'dist/supervisor.js'), "throw new Error('broken')\n")
  fails(
    await here.start({ ...servers, DATABASE_URL: await createDatabase() }),
    1,
    /the service exited with code 1: Error: broken$/m,
  )
  t.deepEqual(await here.processes(), [])
})

test.serial('start: an interruption is reported, and leaves no process behind', async t => {
  const { here } = t.context
  const env = { ...here.env, DATABASE_URL: 'mysql://me@127.0.0.1:9/users' }
  const start = spawn(process.execPath, ['dist/start.js'], { cwd: here.folder, env })
  const closed = once(start, 'close')
  const log = collectLog(start)
  await log.line(/waiting for the database/)
  // Twice, because npm forwards the signal that the terminal has sent to the whole process group.
  start.kill('SIGINT')
  start.kill('SIGINT')
  t.deepEqual(await closed, [130, null])
  t.regex(log.text(), /\nusers-api: interrupted: stopping everything .* started\nusers-api: stopped\n$/)
  t.deepEqual(await here.processes(), [])
})

for (const step of ['starting Redis', 'starting the service'])
  test.serial(
    `start: an interruption at the beginning of a step leaves no process behind: ${step}`,
    async t => {
      const { here } = t.context
      const start = spawn(process.execPath, ['dist/start.js'], { cwd: here.folder, env: here.env })
      const closed = once(start, 'close')
      await collectLog(start).line(new RegExp(step))
      start.kill('SIGINT')
      t.deepEqual(await closed, [130, null])
      t.deepEqual(await here.processes(), [])
    },
  )

/** Code with which a supervisor is busy for 3 s as soon as a worker is ready. */
const busyWhenReady = `
const { send } = process
if (send !== undefined)
  process.send = (...args) => {
    if (args[0] === 'ready')
      setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000))
    return send.apply(process, args)
  }`

test.serial('start: waits for a busy service, and skips the checks of ports in mode `refuse`', async t => {
  const { here } = t.context
  const refused = { mode: 'refuse', since: new Date().toISOString(), by: 'test' }
  await mkdir(join(here.folder, 'var'), { mode: 0o700 })
  const state = JSON.stringify({ maintenance: { http: refused, https: refused } })
  await writeFile(join(here.folder, 'var/state.json'), state)
  const { code, stdout, stderr } = await here.start(runFirst(busyWhenReady))
  t.is(code, 0, stderr)
  for (const label of ['http', 'https'])
    t.regex(stdout, new RegExp(`^users-api: ${label} is still in maintenance: .* resume ${label}$`, 'm'))
})

test.serial('start and stop: servers that outlive a killed pm2 daemon are stopped', async t => {
  const { here } = t.context
  for (const next of [here.start, here.stop]) {
    t.is((await here.start()).code, 0)
    const supervisor = await processOf(here, 'supervisor.js')
    process.kill(await processOf(here, 'God Daemon'), 'SIGKILL')
    // The supervisor detects the loss of pm2 and exits. The private servers continue to run.
    await until(() => !isAlive(supervisor))
    t.true((await processOf(here, 'mysql.sock')) > 0)
    const outcome = await next()
    t.is(outcome.code, 0, outcome.stderr)
  }
  t.deepEqual(await here.processes(), [])
})

test.serial('start and stop: a service that runs under another pm2 keeps its private servers', async t => {
  const { here } = t.context
  t.is((await here.start()).code, 0)
  const database = await processOf(here, 'mysql.sock')
  const elsewhere = await here.run('dist/stop.js', [], { PM2_HOME: join(here.folder, 'other') })
  t.is(elsewhere.code, 1, elsewhere.stdout)
  t.regex(elsewhere.stderr, /the service runs, but not under this pm2: .* PM2_HOME/)
  const claim = await claimPorts()
  t.teardown(claim.release)
  const second = await here.start({
    PM2_HOME: join(here.folder, 'other'),
    NODE_CONFIG: JSON.stringify({ ports: [{ label: 'http', port: claim.first, protocol: 'http' }] }),
  })
  t.is(second.code, 1, second.stdout)
  t.regex(second.stderr, /the service of this folder runs, but not under this pm2: .* PM2_HOME/)
  t.is(await processOf(here, 'mysql.sock'), database)
  t.true(isAlive(database))
})

test.serial('stop: a second one, and a start, let the requests of the first one finish', async t => {
  const { here } = t.context
  // In this mode, a start during the stop finds every port free. The deadline is longer than two commands take on a slow machine.
  const drain = { mode: 'refuse', deadlineMs: 100_000 }
  const settings = { NODE_CONFIG: JSON.stringify({ ...here.config, drain }) }
  t.is((await here.start(settings)).code, 0)
  const body = JSON.stringify({ name: 'Poets' })
  const slow = await connect(here.port)
  slow.write(
    `POST /v1/groups HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
  )
  const first = here.stop()
  const health = `http://127.0.0.1:${here.port + 1}/healthcheck/http`
  await until(async () => (await ask(health)) === undefined)
  const second = await here.stop()
  t.is(second.code, 1, second.stdout)
  t.regex(second.stderr, /already stopping, and waits for requests in flight: run npm stop again/)
  const start = await here.start(settings)
  t.is(start.code, 1, start.stdout)
  t.regex(start.stderr, /is stopping, and waits for requests in flight: run npm start again/)
  slow.write(body)
  await slow.until(/"name":"Poets"/)
  t.is((await first).code, 0)
  t.deepEqual(await here.processes(), [])
})

test.serial('ops: each command prints its own reply and exits with the code of the result', async t => {
  const { here } = t.context
  t.is((await here.start()).code, 0)

  const drained = await here.ops('drain', 'http')
  t.is(drained.code, 0, drained.stderr)
  t.is((await ask(`http://127.0.0.1:${here.port + 1}/healthcheck/http`))?.status, 404)
  t.is((await here.ops('resume', 'http')).code, 0)
  t.is((await ask(`http://127.0.0.1:${here.port + 1}/healthcheck/http`))?.status, 200)

  const refused = await here.ops('drain', 'nope')
  t.is(refused.code, 1)
  t.regex(replyOf(refused).error, /nope.*http, https/)
  t.is((await here.ops('reload')).code, 0)

  // Several operators at once.
  const labels = ['a', 'b', 'c', 'd', 'e', 'f']
  const replies = await Promise.all(labels.map(label => here.ops('resume', label)))
  for (const [index, outcome] of replies.entries()) t.is(replyOf(outcome).argument, labels[index])

  // Several reloads at once: the others are refused while one is in progress.
  const reloads = await Promise.all(['', '', ''].map(() => here.ops('reload')))
  t.true(reloads.some(({ code }) => code === 0))
  for (const outcome of reloads) {
    const reply = replyOf(outcome)
    t.is(outcome.code, 'error' in reply ? 1 : 0, JSON.stringify(reply))
    t.is(reply.argument, null)
  }

  const supervisor = await processOf(here, 'supervisor.js')
  process.kill(supervisor, 'SIGSTOP')
  const silent = await here.ops('status')
  process.kill(supervisor, 'SIGCONT')
  t.is(silent.code, 4)
  t.regex(silent.stderr, /did not reply in time/)
})

test.serial('pm2: starts, triggers and stops the service with ecosystem.config.js', async t => {
  const { here } = t.context
  const started = await here.pm2(['start', 'ecosystem.config.js'], { DATABASE_URL: await createDatabase() })
  t.is(started.code, 0, started.stdout + started.stderr)
  // pm2 returns when the service is ready.
  t.is((await ask(`http://127.0.0.1:${here.port + 1}/healthcheck/http`))?.status, 200)

  const drained = await here.pm2(['trigger', 'users-api', 'drain', 'http:404'])
  t.regex(drained.stdout, /\{"command":"drain","argument":"http:404",/)
  t.is((await ask(`http://127.0.0.1:${here.port + 1}/healthcheck/http`))?.status, 404)

  const level = await here.pm2(['trigger', 'users-api', 'log-level', 'debug'])
  t.regex(level.stdout, /\{"command":"log-level","argument":"debug","level":"debug"\}/)

  const supervisor = await processOf(here, 'supervisor.js')
  process.kill(supervisor, 'SIGKILL')
  await until(() => !isAlive(supervisor))
  await until(async () => (await ask(`http://127.0.0.1:${here.port + 3}/healthcheck/https`))?.status === 200)
  t.is((await ask(`http://127.0.0.1:${here.port + 1}/healthcheck/http`))?.status, 404)
  t.not(await processOf(here, 'supervisor.js'), supervisor)

  t.is((await here.pm2(['stop', 'users-api'])).code, 0)
  t.deepEqual(
    (await here.processes()).filter(line => line.includes('dist/')),
    [],
  )
})
