// Starts a real service for a test: a new database, free ports, and the built supervisor as a child process.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { on, once } from 'node:events'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import mysql from 'mysql2/promise'
import { root } from '../../src/config/root.ts'
import type { Status } from '../../src/supervisor/control-ports/status.ts'
import { type Answer, createClient } from './http.ts'
import { collectLog } from './log.ts'
import { claimPorts } from './ports.ts'
import { createSchema } from './schema.ts'
import { until } from './until.ts'

const startMs = 60_000
const stopMs = 40_000

export interface Settings {
  ports?: {
    label: string
    port: number
    protocol: 'http' | 'https'
    certificate?: string
    key?: string
    proxyProtocol?: boolean
  }[]
  control?: { socket: string; host?: string }
  [key: string]: unknown
}

export interface ServiceOptions {
  /** Settings that override config/test.json. If `ports` is given, it must contain the label `http`. */
  config?: Settings
  env?: NodeJS.ProcessEnv
  /** Number of workers; 1 by default. */
  workers?: number
  /** URL of a migrated database, such as another service's `database`; a new database by default. */
  database?: string
}

export type Service = Awaited<ReturnType<typeof startService>>

/** Returns the environment of a child process: this process's, without the variables that override settings. */
function environment(database: string, env: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const { WORKERS, LOG_LEVEL, REDIS_URL, NODE_CONFIG, TEST_REDIS_URL, ...inherited } = process.env
  const redis = TEST_REDIS_URL === undefined ? {} : { REDIS_URL: TEST_REDIS_URL }
  return { ...inherited, ...redis, NODE_ENV: 'test', DATABASE_URL: database, ...env }
}

/** Returns the environment for a supervisor with these settings that a test starts itself. */
export function supervisorEnv(
  database: string,
  config: Settings,
  env: NodeJS.ProcessEnv = {},
): NodeJS.ProcessEnv {
  return environment(database, { NODE_CONFIG: JSON.stringify(config), ...env })
}

/** Returns an environment in which every Node.js process runs this module first. */
export const runFirst = (module: string): NodeJS.ProcessEnv => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(module)}`,
})

/** Returns an environment that runs `code` at the start of every worker. The code may use `net`. */
export const runInWorkers = (code: string): NodeJS.ProcessEnv =>
  runFirst(`import net from 'node:net'; if (process.argv[1].endsWith('worker.js')) { ${code} }`)

/** Creates a database on the test server, with the schema of dist/migrate.js. @returns its URL */
export async function createDatabase(): Promise<string> {
  const server = process.env.TEST_DATABASE_URL
  if (server === undefined) throw new Error('TEST_DATABASE_URL is not set: run the tests with npm test')
  const urlOf = (database: string) => Object.assign(new URL(server), { pathname: `/${database}` }).href
  const name = `test_${randomBytes(6).toString('hex')}`
  const connection = await mysql.createConnection(server)
  try {
    await connection.query(`CREATE DATABASE ${name}`)
    await createSchema(connection, name, database => environment(urlOf(database)))
  } finally {
    connection.destroy()
  }
  return urlOf(name)
}

/** Sends a GET request on a connection of its own. @returns undefined if the connection fails */
export function ask(url: string): Promise<Answer | undefined> {
  const { pathname, search } = new URL(url)
  return createClient(url, false)
    .get(pathname + search)
    .catch(() => undefined)
}

/** Returns whether every worker is ready: a test must not change anything while a worker is still booting. */
async function areWorkersReady(controlUrl: string): Promise<boolean> {
  const answer = await ask(`${controlUrl}/status`)
  if (answer === undefined) return false
  const { workers }: Status = JSON.parse(answer.text)
  return workers.length > 0 && workers.every(({ state }) => state === 'ready')
}

async function isReady(controlUrl: string): Promise<boolean> {
  // 404: a port is in maintenance, which persists across a restart.
  return [200, 404].includes((await ask(`${controlUrl}/readyz`))?.status ?? 0)
}

/** Waits for the message that the supervisor sends when a worker listens. Those before it register commands with pm2. */
async function untilListening(supervisor: ChildProcess): Promise<void> {
  for await (const [message] of on(supervisor, 'message', { signal: AbortSignal.timeout(startMs) }))
    if (message === 'ready') return
}

async function untilUp(supervisor: ChildProcess, controlUrl: string, log: () => string): Promise<void> {
  await Promise.race([untilListening(supervisor), once(supervisor, 'exit')]).catch(() => {})
  const isUp = async () => {
    const exit = supervisor.exitCode ?? supervisor.signalCode
    if (exit !== null) throw new Error(`the supervisor exited with ${exit}:\n${log()}`)
    return (await areWorkersReady(controlUrl)) && (await isReady(controlUrl))
  }
  const describe = () => `${controlUrl} is ready\n${log()}`
  await until(isUp, { withinMs: startMs, everyMs: 50, describe }).catch((error: unknown) => {
    supervisor.kill('SIGKILL')
    throw error
  })
}

/**
 * Starts a service and waits until all its workers are ready and it reports to be ready.
 * @throws Error with the supervisor's log if it does not become ready
 */
export async function startService(options: ServiceOptions = {}) {
  const database = options.database ?? (await createDatabase())
  const claim = await claimPorts()
  const folder = await mkdtemp(join(tmpdir(), 'users-api-test-'))
  const certificate = process.env.TEST_CERTIFICATE
  if (certificate !== undefined) await copyFile(certificate, join(folder, 'self-signed.pem'))
  const socket = options.config?.control?.socket ?? join(folder, 'control.sock')
  const config: Settings = {
    ports: [
      { label: 'http', port: claim.first, protocol: 'http' },
      { label: 'https', port: claim.first + 2, protocol: 'https' },
    ],
    stateFile: join(folder, 'state.json'),
    workers: options.workers ?? 1,
    ...options.config,
    control: { socket },
  }
  // With an IPC channel, as pm2 starts it.
  const supervisor = spawn(process.execPath, ['dist/supervisor.js'], {
    cwd: root,
    env: supervisorEnv(database, config, options.env),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const kill = () => supervisor.kill('SIGKILL')
  process.once('exit', kill)
  const exited = once(supervisor, 'exit').then(([code, signal]): number | string => code ?? signal)
  const log = collectLog(supervisor)

  const port = (label: string): number => {
    const found = config.ports?.find(one => one.label === label)
    if (found === undefined) throw new Error(`no port ${label}`)
    return found.port
  }
  const controlUrl = `http://127.0.0.1:${port('http') + 1}`
  /** Waits for the exit, and removes what the service has used. */
  async function clean(): Promise<number | string> {
    const code = await exited
    process.off('exit', kill)
    await claim.release()
    await rm(folder, { recursive: true, force: true })
    return code
  }
  await untilUp(supervisor, controlUrl, log.text).catch(async (error: unknown) => {
    await clean()
    throw error
  })

  return {
    url: `http://127.0.0.1:${port('http')}`,
    httpsUrl: `https://127.0.0.1:${config.ports?.find(one => one.protocol === 'https')?.port}`,
    controlUrl,
    port,
    database,
    supervisor,
    /** The path of the control socket. */
    socket,
    /** Resolves with the exit code or the signal name when the supervisor has exited. */
    exited,
    /** Returns the output of the supervisor and its workers so far. */
    log: log.text,
    logLines: log.lines,
    logLine: log.line,

    /** Returns the workers' process ids from /status, in ascending order. */
    async workers(): Promise<number[]> {
      const answer = await ask(`${controlUrl}/status`)
      const { workers }: Status = JSON.parse(answer?.text ?? '')
      return workers.map(({ pid }) => pid ?? 0).sort((a, b) => a - b)
    },

    /**
     * Stops the service with SIGTERM. @returns its exit code or the signal name
     * @throws Error if any of its processes exited with an uncaught exception, even if the supervisor replaced it
     */
    async stop(): Promise<number | string> {
      supervisor.kill('SIGTERM')
      // Not a wait: the deadline of a stop that hangs.
      const late = setTimeout(kill, stopMs)
      const code = await clean().finally(() => clearTimeout(late))
      // Node prints its version after an uncaught exception.
      if (log.lines(/^Node\.js v\d/).length > 0) throw new Error(`uncaught exception:\n${log.text()}`)
      return code
    },
  }
}
