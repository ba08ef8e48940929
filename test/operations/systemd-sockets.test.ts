// Listening sockets from systemd: a restart refuses no connection. The test holds the sockets as systemd does, or
// systemd-socket-activate passes them.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { findProgram } from '../../src/cli/private-servers/programs.ts'
import { root } from '../../src/config/root.ts'
import { bind } from '../../src/core/listen.ts'
import { sendToSocket } from '../support/control-socket.ts'
import { folder } from '../support/folder.ts'
import { startLoad } from '../support/load.ts'
import { collectLog } from '../support/log.ts'
import { claimPorts } from '../support/ports.ts'
import { ask, createDatabase, type Settings, supervisorEnv } from '../support/service.ts'
import { until } from '../support/until.ts'

/** TEST_RESTARTS sets another number. */
const RESTARTS = Number(process.env.TEST_RESTARTS ?? 4)
const CLIENTS = 32
const HOST = '127.0.0.1'

const database = await createDatabase()

async function prepare(t: ExecutionContext) {
  const path = folder(t)
  const { first: port, release } = await claimPorts()
  t.teardown(release)
  const socket = join(path, 'control.sock')
  const config: Settings = {
    ports: [{ label: 'http', port, protocol: 'http' }],
    stateFile: join(path, 'state.json'),
    workers: 2,
    // On a loaded machine, a client can pause for longer than a second between two requests on its connection.
    drain: { idleMs: 3000 },
    control: { socket },
  }
  return { port, config, socket, url: `http://${HOST}:${port}`, controlUrl: `http://${HOST}:${port + 1}` }
}

/** Binds a socket, which does not listen yet. @returns its descriptor */
async function bindPort(t: ExecutionContext, port: number, host = HOST): Promise<number> {
  const { handle } = await bind({ host, port }, 'socket of systemd')
  t.teardown(() => handle.close())
  if (!('fd' in handle) || typeof handle.fd !== 'number') throw new Error('the handle has no descriptor')
  return handle.fd
}

/** Starts a supervisor that inherits descriptors as from systemd. */
function startWith(config: Settings, descriptors: readonly number[]) {
  const child = spawn('sh', ['-c', 'LISTEN_PID=$$ exec "$0" dist/supervisor.js', process.execPath], {
    cwd: root,
    env: supervisorEnv(database, config, { LISTEN_FDS: `${descriptors.length}` }),
    stdio: ['ignore', 'pipe', 'pipe', ...descriptors],
  })
  return { child, log: collectLog(child), exited: once(child, 'exit').then(([code]): unknown => code) }
}

async function untilReady(child: ChildProcess, controlUrl: string): Promise<void> {
  await until(async () => child.exitCode !== null || (await ask(`${controlUrl}/readyz`))?.status === 200)
}

test.serial('systemd sockets: restarts under load refuse no connection and lose no request', async t => {
  const { port, config, url, controlUrl } = await prepare(t)
  const descriptors = [await bindPort(t, port), await bindPort(t, port + 1)]
  let running = startWith(config, descriptors)
  t.teardown(() => running.child.kill('SIGKILL'))
  await untilReady(running.child, controlUrl)
  const keepAlive = await startLoad({ url, clients: CLIENTS, pauseMs: 5 })
  const single = await startLoad({ url, clients: CLIENTS, connection: 'one a request', pauseMs: 5 })
  // Not waited for: requests that wait in the queue of a socket end when the socket closes.
  for (const { stop } of [keepAlive, single]) t.teardown(() => void stop())
  for (let restart = 0; restart < RESTARTS; restart++) {
    await Promise.all([keepAlive.requests(100), single.requests(100)])
    running.child.kill('SIGTERM')
    t.is(await running.exited, 0, running.log.text())
    running = startWith(config, descriptors)
    // A check waits as well, and is answered.
    t.not(await ask(`${controlUrl}/livez`), undefined)
    await untilReady(running.child, controlUrl)
  }
  const tallies = [await keepAlive.stop(), await single.stop()]
  t.deepEqual(
    tallies.map(({ failures }) => failures),
    [{}, {}],
  )
  t.log(`${RESTARTS} restarts, ${tallies.map(({ requests }) => requests).join(' and ')} requests`)
  running.child.kill('SIGTERM')
  t.is(await running.exited, 0)
})

test.serial('systemd sockets: one that matches no port is an error that names it', async t => {
  const { port, config, socket } = await prepare(t)
  for (const offset of [3, 0]) {
    // The port that matches is passed twice.
    const descriptor = await bindPort(t, port + offset)
    const { exited, log } = startWith(config, offset === 0 ? [descriptor, descriptor] : [descriptor])
    t.is(await exited, 78)
    t.regex(log.text(), new RegExp(`the socket ${HOST}:${port + offset} from systemd matches no port`))
  }
  // Each port has a socket, as after a port was removed from the settings alone.
  const controlHost = '127.0.0.2'
  const descriptors = [
    await bindPort(t, port),
    await bindPort(t, port + 1, controlHost),
    await bindPort(t, port + 2),
  ]
  const { exited, log } = startWith({ ...config, control: { socket, host: controlHost } }, descriptors)
  t.is(await exited, 78)
  t.regex(log.text(), new RegExp(`socket ${HOST}:${port + 2} .* ports without a socket: none;`))
})

test.serial(
  'systemd sockets: a control port that systemd holds cannot refuse connections, and says so',
  async t => {
    const { port, config, socket, controlUrl } = await prepare(t)
    const descriptors = [await bindPort(t, port + 1)]
    const refusing = startWith({ ...config, drain: { mode: 'refuse' } }, descriptors)
    t.is(await refusing.exited, 78)
    t.regex(refusing.log.text(), /the control port of http has a socket from systemd, which cannot refuse/)

    // A port that was put into maintenance before it had a socket.
    const stateFile = join(folder(t), 'state.json')
    const refused = { mode: 'refuse', since: new Date().toISOString(), by: 'ada' }
    writeFileSync(stateFile, JSON.stringify({ maintenance: { http: refused } }))
    const kept = startWith({ ...config, stateFile }, descriptors)
    t.is(await kept.exited, 78)
    t.regex(kept.log.text(), new RegExp(`: use "mode": "404" in ${stateFile}, or remove`))

    const { child, exited } = startWith(config, descriptors)
    t.teardown(() => child.kill('SIGKILL'))
    await untilReady(child, controlUrl)
    const drain = (argument: string) => sendToSocket(socket, '/commands/drain', JSON.stringify({ argument }))
    t.regex((await drain('http:refuse')).reply.error ?? '', /cannot refuse connections: use the mode 404/)
    t.is((await ask(`${controlUrl}/healthcheck/http`))?.status, 200)
    t.is((await drain('http:404')).reply.error, undefined)
    child.kill('SIGTERM')
    t.is(await exited, 0)
  },
)

test.serial('systemd sockets: systemd-socket-activate passes the data and the control port', async t => {
  const activate = findProgram(['systemd-socket-activate'])
  if (activate === undefined) {
    t.log('NOT CHECKED: systemd-socket-activate is not installed')
    t.pass()
    return
  }
  const { port, config, url } = await prepare(t)
  const env = supervisorEnv(database, config)
  const child = spawn(
    activate,
    [
      ...[port, port + 1].flatMap(one => ['-l', `${HOST}:${one}`]),
      // It passes only these variables.
      ...Object.keys(env).flatMap(name => ['-E', name]),
      process.execPath,
      'dist/supervisor.js',
    ],
    { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const log = collectLog(child)
  const exited = once(child, 'exit')
  t.teardown(() => child.kill('SIGKILL'))
  // The first connection starts the service, and waits for it.
  await until(async () => child.exitCode !== null || (await ask(`${url}/v1/groups`))?.status === 200)
  t.is((await ask(`http://${HOST}:${port + 1}/healthcheck/http`))?.status, 200, log.text())
  child.kill('SIGTERM')
  t.is((await exited)[0], 0)
})
