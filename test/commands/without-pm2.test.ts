// The service without pm2, as in a container: a copy of the project that has no pm2 installed, in network namespaces of its
// own, with the supervisor in the foreground and commands through the control socket.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { createInstallation, type Installation } from '../support/installation.ts'
import { runToEnd } from '../support/run-to-end.ts'
import { createDatabase } from '../support/service.ts'

/** The arguments of unshare(1) that create a network namespace; undefined if this user may create none. */
async function namespaceOptions(): Promise<string[] | undefined> {
  for (const options of [['-n'], ['-rn']]) {
    const outcome = await runToEnd('unshare', [...options, 'true']).catch(() => undefined)
    if (outcome?.code === 0) return options
  }
  return undefined
}

const options = await namespaceOptions()
const isolated = options === undefined ? [] : ['unshare', ...options]
const database = await createDatabase()

async function createCopy(t: ExecutionContext): Promise<Installation> {
  const here = await createInstallation({ withPm2: false })
  t.teardown(() => here.remove())
  const pm2 = await here.run('--input-type=module', ['-e', 'await import("pm2")'])
  t.regex(pm2.stderr, /ERR_MODULE_NOT_FOUND/)
  return here
}

/** Starts the supervisor in the foreground, with a loopback interface and no other network. */
function startSupervisor(t: ExecutionContext, here: Installation) {
  const [program = '', ...args] = [
    ...isolated,
    'sh',
    '-c',
    'ip link set lo up; exec "$0" dist/supervisor.js',
    process.execPath,
  ]
  const REDIS_URL = process.env.TEST_REDIS_URL
  const supervisor = spawn(program, args, {
    cwd: here.folder,
    env: { ...here.env, DATABASE_URL: database, ...(REDIS_URL !== undefined && { REDIS_URL }) },
    stdio: 'ignore',
  })
  const kill = () => supervisor.kill('SIGKILL')
  t.teardown(kill)
  // Without a teardown, as after a timeout.
  process.once('exit', kill)
  return supervisor
}

/** Runs a command of an operator without any network. */
async function ops(here: Installation, ...args: string[]) {
  const [program = '', ...rest] = [...isolated, process.execPath, 'dist/ops.js', ...args]
  const { code, stdout, stderr } = await runToEnd(program, rest, here.env, here.folder)
  return { code, reply: stdout === '' ? stderr : JSON.parse(stdout) }
}

async function untilReady(here: Installation): Promise<void> {
  for (;;) {
    const { code, reply } = await ops(here, 'status')
    if (code !== 0 && code !== 3) throw new Error(reply)
    if (reply.workers?.[0]?.state === 'ready') return
  }
}

test.before(t => {
  if (options === undefined) t.log('not isolated: this user may create no network namespace')
})

test.serial('every command and a stop work in the foreground', async t => {
  const here = await createCopy(t)
  const socket = join(here.folder, 'var/control.sock')
  t.is((await ops(here, 'status')).code, 3)
  const supervisor = startSupervisor(t, here)
  await untilReady(here)
  t.true(existsSync(socket))
  const done: [string[], object][] = [
    [['drain', 'http'], { argument: 'http', changed: true, mode: '404' }],
    [['wait', 'http'], { ended: 'drained', connections: 0 }],
    [['resume', 'http'], { state: 'serving', changed: true }],
    [['reload'], { command: 'reload' }],
    [['log-level', 'error'], { level: 'error' }],
    [['reload-certificates'], { command: 'reload-certificates' }],
    [['status'], { ports: { http: { state: 'serving' }, https: { state: 'serving' } } }],
  ]
  for (const [args, expected] of done) {
    const { code, reply } = await ops(here, ...args)
    t.is(code, 0, JSON.stringify(reply))
    t.like(reply, { command: args[0], ...expected })
  }
  const exited = once(supervisor, 'exit')
  supervisor.kill('SIGTERM')
  t.deepEqual(await exited, [0, null])
  t.false(existsSync(socket))
  t.is((await ops(here, 'status')).code, 3)
})

test.serial('two copies: the operators of each one talk to their own', async t => {
  const copies = [await createCopy(t), await createCopy(t)] as const
  for (const here of copies) startSupervisor(t, here)
  await Promise.all(copies.map(untilReady))
  const [first, second] = copies
  t.like(await ops(first, 'drain', 'http'), { code: 0, reply: { mode: '404', port: first.port } })
  t.like(await ops(second, 'status'), {
    code: 0,
    reply: { ports: { http: { state: 'serving', port: second.port } } },
  })
})
