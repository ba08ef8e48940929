// The life cycle of a real service: probes, failing workers, stops, and a killed supervisor.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import test, { type ExecutionContext } from 'ava'
import { generate } from 'selfsigned'
import { folder } from '../support/folder.ts'
import { assertServed, beginRequest, finishRequest, get, post } from '../support/group-requests.ts'
import { collectLog } from '../support/log.ts'
import { check, createOperator, isAlive, type Operator } from '../support/operator.ts'
import { claimPorts } from '../support/ports.ts'
import { connect } from '../support/raw.ts'
import { runNode } from '../support/run-to-end.ts'
import {
  ask,
  createDatabase,
  runInWorkers,
  type ServiceOptions,
  type Settings,
  startService,
  supervisorEnv,
} from '../support/service.ts'
import { atSteadyInterval } from '../support/steady-interval.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const database = await createDatabase()
/** How often a test checks the health where no check may fail. */
const CHECK_EVERY_MS = 10

async function start(t: ExecutionContext, options: ServiceOptions = {}) {
  const service = await startService({ database, ...options })
  t.teardown(() => service.stop())
  return { service, operator: createOperator(service), open: () => connect(service.port('http')) }
}

/** Waits until there are two workers that are ready, and none of them is `victim`. */
const untilReplaced = (operator: Operator, victim: number) =>
  operator.until(
    ({ workers }) =>
      workers.every(({ pid }) => pid !== victim) && workers.filter(w => w.state === 'ready').length === 2,
  )

/** Sends GET and HEAD to both control ports, which all answer the same. @returns its body */
async function probe(t: ExecutionContext, operator: Operator, path: string) {
  const sent = ['http', 'https'].flatMap(at =>
    ['GET', 'HEAD'].map(method => check(operator.controlPort(at), path, { method })),
  )
  const answers = (await Promise.all(sent)).flatMap(answer => (answer === 'refused' ? [] : answer))
  t.is(answers.length, 4)
  t.is(new Set(answers.map(({ status }) => status)).size, 1)
  for (const { headers } of answers) t.is(headers['cache-control'], 'no-store')
  return JSON.parse(answers[0]?.text ?? '')
}

test.serial(
  'probes: /livez is 200 in every state of the ports, /readyz while all of them are serving',
  async t => {
    const { service, operator } = await start(t, {
      config: { drain: { delayMs: 60_000 }, fleet: { silentMs: 60_000 } },
    })
    const answer = (path: string) => probe(t, operator, path)
    const untilReady = (status: number) =>
      until(async () => {
        const ready = await check(operator.controlPort('http'), '/readyz')
        return ready !== 'refused' && ready.status === status
      })
    const alive = { meta: { status: 200, message: 'the supervisor is running', code: 'alive' } }
    t.deepEqual(await answer('/livez'), alive)
    const serving = { meta: { status: 200, message: 'every port is serving', code: 'serving' } }
    t.deepEqual(await answer('/readyz'), serving)

    await operator.run('drain', 'https')
    await operator.until(({ ports }) => ports.https?.state === 'drained')
    const drained = { meta: { status: 404, message: 'https is drained', code: 'maintenance' } }
    t.deepEqual(await answer('/readyz'), drained)
    t.deepEqual(await answer('/livez'), alive)
    await operator.run('resume', 'https')
    t.deepEqual(await answer('/readyz'), serving)
    for (const path of ['/livez/', '/readyz/', '/livez/http', '/healthz', '/livezz'])
      t.like(await check(operator.controlPort('http'), path), { status: 400, code: 'port_not_found' }, path)

    const [worker = 0] = await service.workers()
    process.kill(worker, 'SIGSTOP')
    t.teardown(() => isAlive(worker) && process.kill(worker, 'SIGKILL'))
    await untilReady(503)
    t.deepEqual(await answer('/livez'), alive)
    process.kill(worker, 'SIGCONT')
    await untilReady(200)
    service.supervisor.kill('SIGTERM')
    await untilReady(404)
    t.deepEqual(await answer('/livez'), alive)
  },
)

test.serial('status: lists checkers with address, time, response and HAProxy server state', async t => {
  const { operator } = await start(t)
  // A terminal takes the control character at the end for the start of a command.
  const state = 'UP; name=bck/srv1; node=lb1; weight=1/2; scur=13/22; qcur=0'
  const headers = { 'X-Haproxy-Server-State': `${state}\x9b` }
  await operator.health('https')
  // On a busy machine, the interval can vary too much at first.
  const listed = async () => {
    await check(operator.controlPort('https'), '/healthcheck/http', { headers })
    await operator.health('http')
    const { ports } = await operator.status()
    return ports.http?.checkers.length === 2 && ports
  }
  const ports = await until(listed, { everyMs: 1000 })
  t.like(ports.http?.checkers[0], {
    address: '127.0.0.1',
    status: 200,
    server_state: `${state}?`,
  })
  t.is(ports.http?.checkers[1]?.server_state, null, 'HAProxy is told apart from others at its address')
  t.deepEqual(ports.https?.checkers, [], 'a single check makes no checker')
  t.like(ports.http, { state: 'serving', mode: null, by: 'start', connections: 0, in_flight: 0 })
})

test.serial('workers: a worker that dies or hangs is replaced', async t => {
  const { service, operator, open } = await start(t, {
    workers: 2,
    config: { fleet: { beatMs: 100, silentMs: 6000 } },
  })
  for (const signal of ['SIGKILL', 'SIGSEGV', 'SIGSTOP'] as const) {
    const [victim = 0, other = 0] = await service.workers()
    process.kill(victim, signal)
    const { workers } = await untilReplaced(operator, victim)
    t.true(
      workers.some(({ pid }) => pid === other),
      `${signal} affects only one worker`,
    )
    t.false(isAlive(victim))
    await assertServed(t, open)
  }
  const metrics = (await ask(`${service.controlUrl}/metrics`))?.text ?? ''
  const [, lost] = /^users_api_lost_workers_total (\d+)$/m.exec(metrics) ?? []
  // A worker that a busy machine does not run for `silentMs` is lost as well.
  t.true(Number(lost) >= 3, lost)
})

/** The kernel limits the arguments and the environment of a program to a quarter of this (execve(2)). */
const stackBytes = 2 ** 20
const onLinux = process.platform === 'linux' ? test.serial : test.serial.skip
onLinux('workers: one that cannot be created is tried again, and the supervisor stays', async t => {
  const env = Object.fromEntries([1, 2, 3].map(count => [`LONG_${count}`, 'x'.repeat(100_000)]))
  const { service, operator } = await start(t, { env })
  const limitStack = (bytes: number) =>
    promisify(execFile)('prlimit', [`--pid=${service.supervisor.pid}`, `--stack=${bytes}:`])
  const [victim = 0] = await service.workers()
  await limitStack(stackBytes)
  process.kill(victim, 'SIGKILL')
  await service.logLine(/worker process error/)
  t.like(await check(operator.controlPort('http'), '/healthcheck/http'), { status: 503, code: 'no_worker' })
  await limitStack(8 * stackBytes)
  await operator.until(({ workers }) => workers.some(({ state }) => state === 'ready'))
})

onLinux('workers: if none can be created, the supervisor exits and says why', async t => {
  const { service } = await start(t)
  const [worker = 0] = await service.workers()
  await promisify(execFile)('prlimit', [`--pid=${service.supervisor.pid}`, '--nofile=10:'])
  process.kill(worker, 'SIGKILL')
  await service.logLine(/^users-api: no worker could start: spawn .* EMFILE$/)
  t.is(await service.exited, 70)
})

test.serial('workers: one that is killed while it finishes its requests is a warning', async t => {
  const { service, operator, open } = await start(t)
  const client = await open()
  client.write('GET /v1/users HTTP/1.1\r\n')
  const [worker = 0] = await service.workers()
  const reload = operator.run('reload')
  await operator.until(({ workers }) => workers.some(({ state }) => state === 'retiring'))
  process.kill(worker, 'SIGKILL')
  t.is((await reload).error, undefined)
  await service.logLine(/"level":40,.*"reason":"worker terminated by SIGKILL","msg":"worker exited"/)
})

for (const workers of [1, 2])
  test.serial(`workers: ${workers} of ${workers} hang, health fails, and they are replaced`, async t => {
    const { service, operator, open } = await start(t, {
      workers,
      config: { fleet: { beatMs: 300, silentMs: 6000 } },
    })
    const hung = await service.workers()
    for (const pid of hung) process.kill(pid, 'SIGSTOP')
    t.teardown(() => {
      for (const pid of hung) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
    })
    await operator.untilHealth('http', 503)
    t.true(hung.every(isAlive), 'health fails before the workers are killed')
    t.like(await check(operator.controlPort('http'), '/healthcheck/https'), { code: 'no_worker' })
    await operator.untilHealth('http', 200)
    await until(() => !hung.some(isAlive))
    await assertServed(t, open)
    await operator.until(
      ({ workers: now }) => now.filter(({ state }) => state === 'ready').length === workers,
    )
  })

for (const [title, withWorkers] of [
  ['the supervisor', false],
  ['the supervisor with its workers', true],
] as const)
  test.serial(`suspension of ${title}: no worker is killed and no health check fails`, async t => {
    const silentMs = 3000
    const { service, operator } = await start(t, {
      workers: 2,
      config: { fleet: { beatMs: 1000, silentMs } },
    })
    const workers = await service.workers()
    const suspended = withWorkers ? workers : []
    service.supervisor.kill('SIGSTOP')
    for (const pid of suspended) process.kill(pid, 'SIGSTOP')
    // A new connection: one that is idle would be closed if the suspension is longer than the keep-alive timeout.
    const checker = await connect(operator.controlPort('http'))
    const request = 'GET /healthcheck/http HTTP/1.1\r\n\r\n'
    checker.write(request)
    // Longer than a worker may be silent.
    await delay(2 * silentMs)
    service.supervisor.kill('SIGCONT')
    // The supervisor notices its suspension, and answers again, before the workers send messages.
    t.regex(await checker.answer(), /^HTTP\/1.1 200/)
    checker.write(request)
    for (const pid of suspended) process.kill(pid, 'SIGCONT')
    const endMs = performance.now() + silentMs
    await atSteadyInterval(CHECK_EVERY_MS, async () => {
      t.regex(await checker.answer(), /^HTTP\/1.1 200/)
      checker.write(request)
      return performance.now() > endMs
    })
    t.deepEqual(await service.workers(), workers)
    t.notRegex(service.log(), /worker killed/)
  })

test.serial(
  'workers: a connection not yet accepted waits for another worker, even if all workers die',
  async t => {
    const { service, operator, open } = await start(t, { workers: 2 })
    const [victim = 0] = await service.workers()
    process.kill(victim, 'SIGSTOP')
    const clients = await Promise.all(Array.from({ length: 4 }, open))
    for (const client of clients) client.write(get)
    process.kill(victim, 'SIGKILL')
    for (const client of clients) t.regex(await client.answer(), /^HTTP\/1.1 200/)

    await untilReplaced(operator, victim)
    const pids = await service.workers()
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    const waiting = await Promise.all(Array.from({ length: 4 }, open))
    for (const client of waiting) client.write(get)
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    for (const client of waiting) t.regex(await client.answer(), /^HTTP\/1.1 200/)
  },
)

test.serial('workers: the signals to the supervisor are ignored', async t => {
  const { service, open } = await start(t)
  const [worker = 0] = await service.workers()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2'] as const) process.kill(worker, signal)
  await assertServed(t, open)
  t.deepEqual(await service.workers(), [worker])
})

test.serial('health checks: no_worker while no worker is running', async t => {
  const hold = join(folder(t), 'hold')
  const bootWithoutFile = runInWorkers(`
    const { existsSync } = process.getBuiltinModule('node:fs')
    while (existsSync(${JSON.stringify(hold)})) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)`)
  const { service, operator } = await start(t, { env: bootWithoutFile })
  const [worker = 0] = await service.workers()
  await writeFile(hold, '')
  process.kill(worker, 'SIGKILL')
  const codes = new Set<string | undefined>()
  const untilCode = (wanted: string) =>
    atSteadyInterval(CHECK_EVERY_MS, async () => {
      const answer = await check(operator.controlPort('http'), '/healthcheck/http')
      if (answer === 'refused') throw new Error('refused')
      codes.add(answer.code)
      return codes.has(wanted)
    })
  await untilCode('no_worker')
  await rm(hold)
  codes.delete('serving')
  await untilCode('serving')
  t.deepEqual(
    [...codes].filter(code => code !== 'serving'),
    ['no_worker'],
  )
})

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  test.serial(
    `${signal}: drains first, then refuses connections, finishes in-flight requests and exits with 0`,
    async t => {
      const delayMs = 8000
      const { service, operator, open } = await start(t, {
        workers: 2,
        config: { drain: { delayMs, idleMs: 60_000 } },
      })
      const slow = await beginRequest(operator, open)
      const startMs = performance.now()
      service.supervisor.kill(signal)
      await operator.until(
        ({ ports }) => ports.http?.state === 'draining' && ports.https?.state === 'drained',
      )
      t.is(await operator.health('http'), 404)
      t.is(await operator.health('https', 'http'), 404)
      const late = await open()
      t.regex(await late.ask(get), /^HTTP\/1.1 200(.|\r\n)*Connection: close/)

      await operator.until(({ workers }) => workers.every(({ state }) => state === 'retiring'))
      t.true(performance.now() - startMs >= delayMs, 'the drain delay')
      // The workers receive the message a moment after the status changes.
      const openUntilRefused = async () => {
        for (;;) (await open()).socket.destroy()
      }
      await t.throwsAsync(openUntilRefused(), { code: 'ECONNREFUSED' })
      t.is(await operator.health('http'), 404, 'no 503 while the last request is served')
      await finishRequest(t, slow)
      t.is(await service.exited, 0)
      t.is(await operator.health('http'), 'refused')
    },
  )

test.serial(
  'stop: in the mode refuse, checks are refused; a second signal skips the drain delay, a third one the requests',
  async t => {
    const { service, operator, open } = await start(t, {
      config: { drain: { mode: 'refuse', delayMs: 60_000, deadlineMs: 60_000 } },
    })
    const slow = await beginRequest(operator, open)
    service.supervisor.kill('SIGTERM')
    await until(async () => (await operator.health('http')) === 'refused')
    t.regex((await operator.run('resume', 'http')).error ?? '', /only status is available/)
    service.supervisor.kill('SIGTERM')
    await until(async () => (await operator.run('status')).workers?.[0]?.state === 'retiring')
    t.false(slow.isClosed())
    service.supervisor.kill('SIGTERM')
    t.is(await service.exited, 0)
    await slow.closed
  },
)

async function claimPort(t: ExecutionContext): Promise<number> {
  const { first, release } = await claimPorts()
  t.teardown(release)
  return first
}

/** Returns the settings of a supervisor with one port. Its files are in `path`. */
const settingsOf = (path: string, port: number, more: Settings = {}): Settings => ({
  workers: 1,
  ports: [{ label: 'http', port, protocol: 'http' }],
  stateFile: join(path, 'state.json'),
  control: { socket: join(path, 'control.sock') },
  ...more,
})

/** Starts a supervisor with one worker, and does not wait until that worker is ready. */
async function startSupervisor(t: ExecutionContext, url: string, env: NodeJS.ProcessEnv = {}) {
  const port = await claimPort(t)
  const config = settingsOf(folder(t), port)
  const supervisor = spawn(process.execPath, ['dist/supervisor.js'], {
    env: supervisorEnv(url, config, { ...env, LOG_LEVEL: 'info' }),
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  t.teardown(() => supervisor.kill('SIGKILL'))
  return { supervisor, port, log: collectLog(supervisor), exited: once(supervisor, 'exit') }
}

test.serial('stop: a worker that accepts connections, but has not said so yet, serves them', async t => {
  const lateListening = runInWorkers(`const { send } = process
    process.send = (...args) => {
      const sendNow = () => send.apply(process, args)
      if (args[0].type !== 'listening') sendNow()
      else process.on('message', ({ ports }) => ports?.http?.state === 'draining' && sendNow())
    }`)
  const { supervisor, port, log, exited } = await startSupervisor(t, database, lateListening)
  await until(async () => (await ask(`http://127.0.0.1:${port}/`)) !== undefined)
  const client = await connect(port)
  t.regex(await client.ask(post.replace('\r\n\r\n', '\r\nExpect: 100-continue\r\n\r\n')), /^HTTP\/1.1 100/)
  supervisor.kill('SIGTERM')
  await log.line(/"msg":"service stopping"/)
  await finishRequest(t, client)
  t.deepEqual(await exited, [0, null])
})

test.serial('stop: the end of a worker that boots is no error', async t => {
  const { proxy, url } = await databaseBehindProxy(t)
  proxy.refuse()
  const { supervisor, log, exited } = await startSupervisor(t, url)
  await log.line(/waiting for the database/)
  supervisor.kill('SIGTERM')
  t.regex(await log.line(/"msg":"worker killed"/), /"level":30,/)
  t.deepEqual(await exited, [0, null])
})

test.serial('stop: the connections that wait to be accepted are served', async t => {
  // A connection whose request has not been read yet is idle.
  const { service, operator, open } = await start(t, { workers: 2, config: { drain: { idleMs: 60_000 } } })
  const pids = await service.workers()
  for (const pid of pids) process.kill(pid, 'SIGSTOP')
  const clients = await Promise.all(Array.from({ length: 24 }, open))
  for (const client of clients) client.write(get.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
  service.supervisor.kill('SIGTERM')
  await operator.until(({ workers }) => workers.every(({ state }) => state === 'retiring'))
  for (const pid of pids) process.kill(pid, 'SIGCONT')
  for (const client of clients) t.regex(await client.answer(), /^HTTP\/1.1 200/)
  t.is(await service.exited, 0)
})

test.serial(
  'open files: a worker without a free file descriptor goes on, and a low limit is logged',
  async t => {
    const { service, operator } = await start(t, { config: { limits: { connections: 10_000_000 } } })
    const { limit = 0 } = JSON.parse(await service.logLine(/limit of open files is too low/))
    t.true(limit > 0)
    const [worker = 0] = await service.workers()
    await promisify(execFile)('prlimit', ['--pid', `${worker}`, '--nofile=1:1'])
    // Each reply waits for a heartbeat that is sent after the command.
    for (let again = 0; again < 3; again++) t.is((await operator.run('status')).workers?.[0]?.pid, worker)
    t.is(await operator.health('http'), 200)
  },
)

test.serial('signals: SIGUSR2 does not end a start, and SIGHUP stops in good order', async t => {
  const path = folder(t)
  const first = await claimPort(t)
  const [certificate, key] = [join(path, 'cert.pem'), join(path, 'key.pem')]
  const { cert, private: privateKey } = await generate([{ name: 'commonName', value: 'a.test' }])
  await promisify(execFile)('mkfifo', [certificate])
  await writeFile(key, privateKey)
  const config = settingsOf(path, first, {
    ports: [{ label: 'http', port: first, protocol: 'https', certificate, key }],
  })
  const supervisor = spawn(process.execPath, ['dist/supervisor.js'], {
    env: supervisorEnv(database, config),
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  t.teardown(() => supervisor.kill('SIGKILL'))
  const ready = once(supervisor, 'message', { signal: AbortSignal.timeout(60_000) })
  // The start waits for the text of the certificate.
  const pipe = await open(certificate, 'w')
  supervisor.kill('SIGUSR2')
  await pipe.writeFile(cert)
  await pipe.close()
  t.truthy((await ready)[0])
  const operator = createOperator({ supervisor, port: () => first })
  await operator.untilHealth('http', 200)
  const exited = once(supervisor, 'exit')
  const client = await connect(first, { tls: true })
  client.write(post)
  await operator.until(({ ports }) => ports.http?.in_flight === 1)
  supervisor.kill('SIGHUP')
  await operator.until(({ ports }) => ports.http?.state === 'draining')
  await finishRequest(t, client)
  t.deepEqual(await exited, [0, null])
})

test.serial('stop: open connections are cut at the deadline', async t => {
  const { service, operator, open } = await start(t, { config: { drain: { deadlineMs: 800 } } })
  await beginRequest(operator, open)
  const startMs = performance.now()
  service.supervisor.kill('SIGTERM')
  t.is(await service.exited, 0)
  t.true(performance.now() - startMs >= 800)
})

test.serial('killed supervisor: workers finish in-flight requests and exit', async t => {
  const { service, operator, open } = await start(t, { workers: 2 })
  const slow = await open()
  slow.write(post)
  const idle = await open()
  await operator.until(({ ports }) => ports.http?.in_flight === 1 && ports.http.connections === 2)
  const workers = await service.workers()
  service.supervisor.kill('SIGKILL')
  t.is(await service.exited, 'SIGKILL')
  await idle.closed
  // Connections accepted before the last worker has noticed are closed cleanly.
  const openUntilRefused = async () => {
    for (;;) await (await open()).closed
  }
  await t.throwsAsync(openUntilRefused, { code: 'ECONNREFUSED' })
  await finishRequest(t, slow)
  await slow.closed
  await until(() => !workers.some(isAlive))
  t.pass()
})

/** Kills a supervisor when its two workers are about to listen. Returns what the workers then write to stderr. */
async function killBeforeListening(t: ExecutionContext, env: NodeJS.ProcessEnv) {
  const port = await claimPort(t)
  const child = spawn(process.execPath, ['dist/supervisor.js'], {
    env: supervisorEnv(database, settingsOf(folder(t), port, { workers: 2 }), env),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', text => (errors += text))
  const operator = createOperator({ supervisor: child, port: () => port })
  const metrics = async () => (await ask(`http://127.0.0.1:${port + 1}/metrics`))?.text
  await until(async () => (await metrics())?.match(/^users_api_worker_database_up.* 1$/gm)?.length === 2)
  const { workers } = await operator.status()
  child.kill('SIGKILL')
  // The workers inherit its stderr, so `close` is emitted when they have exited.
  await once(child, 'close')
  t.is(workers.length, 2)
  await until(() => !workers.some(({ pid = 0 }) => isAlive(pid)))
  return errors
}

test.serial('killed supervisor: booting workers exit', async t => {
  const neverListen = runInWorkers('net.Server.prototype.listen = function () { return this }')
  t.is(await killBeforeListening(t, neverListen), '')
})

test.serial(
  'killed supervisor: a worker that starts to listen before it has noticed exits without an error',
  async t => {
    const listenAsOrphans = runInWorkers(`
    const { listen } = net.Server.prototype
    const parent = process.ppid
    net.Server.prototype.listen = function (...args) {
      while (process.ppid === parent) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
      return listen.apply(this, args)
    }`)
    t.is(await killBeforeListening(t, listenAsOrphans), '')
  },
)

test.serial('pm2 disconnected: the service stops gracefully', async t => {
  // Longer than the timeout of a test: only a stop that has begun already ends soon after a signal.
  const delayMs = 600_000
  const { service, operator, open } = await start(t, { config: { drain: { delayMs, idleMs: 60_000 } } })
  service.supervisor.disconnect()
  await operator.until(({ ports }) => ports.http?.by === 'pm2 disconnected')
  const client = await open()
  t.regex(await client.ask(get), /200 OK/)
  service.supervisor.kill('SIGTERM')
  t.is(await service.exited, 74)
  t.regex(service.log(), /^users-api: stopped without a command: pm2 disconnected$/m)
})

test.serial('output closed: the service stops gracefully when the reader of its stdout exits', async t => {
  const { service, operator, open } = await start(t, { env: { LOG_LEVEL: 'info' } })
  const slow = await beginRequest(operator, open)
  service.supervisor.stdout?.destroy()
  // The supervisor notices at its next log line.
  await operator.run('status')
  await operator.until(({ ports }) => ports.http?.by === 'output closed')
  await finishRequest(t, slow)
  t.is(await service.exited, 74)
})

/** Returns the test database behind a TCP proxy. */
async function databaseBehindProxy(t: ExecutionContext) {
  const proxy = await openTcpProxy(database)
  t.teardown(() => proxy.close())
  const url = new URL(database)
  url.searchParams.delete('socketPath')
  url.hostname = '127.0.0.1'
  url.port = String(proxy.port)
  return { proxy, url: url.href }
}

test.serial('database not up yet: workers wait for it beyond the boot timeout', async t => {
  const { proxy, url } = await databaseBehindProxy(t)
  proxy.refuse()
  const starting = start(t, {
    database: url,
    config: { fleet: { bootMs: 10_000, beatMs: 100 } },
  })
  // The worker retries after 100 ms and doubles the pause each time.
  await proxy.attempts(10)
  proxy.open()
  const { service } = await starting
  t.regex(service.log(), /"level":40,.*waiting for the database/)
  t.notRegex(service.log(), /worker killed/)
})

test.serial('database silent: a reload that fails says that the new worker had no database', async t => {
  const { proxy, url } = await databaseBehindProxy(t)
  const { service, operator } = await start(t, {
    database: url,
    config: { fleet: { bootMs: 10_000, beatMs: 100 } },
  })
  const workers = await service.workers()
  proxy.block()
  const { error } = await operator.run('reload')
  t.regex(error ?? '', /the old workers stay: worker did not listen within 10000 ms, and had no database$/)
  proxy.open()
  t.deepEqual(await service.workers(), workers)
})

test.serial(
  'database down: the checks of every port fail after the grace period, and recover with the database',
  async t => {
    const { proxy, url } = await databaseBehindProxy(t)
    const { operator } = await start(t, {
      database: url,
      workers: 2,
      config: { health: { databaseGraceMs: 2000 } },
    })
    const code = async () => {
      const answer = await check(operator.controlPort('http'), '/healthcheck/https')
      return answer === 'refused' ? answer : answer.code
    }
    const codes = new Set<string | undefined>()
    const untilCode = (wanted: string) =>
      atSteadyInterval(CHECK_EVERY_MS, async () => {
        const now = await code()
        if (now !== wanted) codes.add(now)
        return now === wanted
      })
    proxy.refuse()
    const lostMs = performance.now()
    await untilCode('no_database')
    // The outage begins with the start of the probe that fails, which can be a moment before the loss.
    t.true(performance.now() - lostMs >= 1500)
    t.deepEqual([...codes], ['serving'])
    proxy.open()
    await untilCode('serving')
  },
)

test.serial('start failures: one line on stderr with the reason, and the documented exit code', async t => {
  const { service, operator } = await start(t)
  const path = folder(t)
  const run = async (port: number, url = service.database) => {
    const env = supervisorEnv(url, settingsOf(path, port), { LOG_LEVEL: 'silent' })
    const { code, stderr } = await runNode('dist/supervisor.js', [], env)
    return { code, stderr }
  }

  const control = await run(service.port('http') - 1)
  t.deepEqual(control, {
    code: 71,
    stderr: `users-api: cannot listen on 127.0.0.1:${service.port('http')} (control port of http): the port is already in use, possibly by \`npm start\` or \`npm run dev\`; free that port, or choose others in config/ or with NODE_CONFIG\n`,
  })
  const free = await claimPort(t)
  // The port after this one is a free port of the service's claim.
  const data = await run(operator.controlPort('https'))
  t.is(data.code, 71, data.stderr)
  t.regex(
    data.stderr,
    /^users-api: .*\(data port http\): the port is already in use, .*; free that port, .*\n$/,
  )

  t.is((await run(free, '')).code, 78)
  const empty = new URL(service.database)
  empty.pathname = '/mysql'
  const unmigrated = await run(free, empty.href)
  t.is(unmigrated.code, 78)
  t.regex(unmigrated.stderr, /npm run migrate/)
  const stranger = new URL(service.database)
  stranger.username = 'unknown_user'
  const refused = await run(free, stranger.href)
  t.is(refused.code, 70)
  t.regex(
    refused.stderr,
    /^users-api: no worker could start: .*Access denied for .*: correct DATABASE_URL, .*\n$/,
  )
  const unverified = new URL(service.database)
  unverified.searchParams.set('ssl', '{}')
  const insecure = await run(free, unverified.href)
  t.is(insecure.code, 70)
  // The server has no TLS, or a certificate that it has signed itself.
  t.regex(
    insecure.stderr,
    /^users-api: no worker could start: .*\((Server does not support secure connection|.*certificate.*)\): correct .*\n$/,
  )
})
