// A private MySQL or Redis: its description, a wait until it is ready, and a way to run it as a child process.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { retry } from '../../core/retry.ts'

/** A server that is ready to be run in the foreground, as a child process or under a process manager. */
export interface PrivateServer {
  /** The name for messages, such as "MariaDB 10.11.6". */
  readonly title: string
  readonly program: string
  readonly args: readonly string[]
  /** The value for DATABASE_URL or REDIS_URL. */
  readonly url: string
  /** Connects to the server once; rejects while the server is not ready. */
  ping(): Promise<void>
}

export interface ServerOptions {
  /** The folder for the server's data. */
  readonly base: string
  /** Whether committed data survive a crash of the machine. Tests and `npm run dev` set false, which is faster. */
  readonly durable: boolean
  /** Called with a line before each step that can take several seconds. */
  readonly print: (line: string) => void
}

export interface RunOptions {
  /** The environment of the server; by default that of this process. */
  readonly env?: NodeJS.ProcessEnv
  /** A file to which the output of the server is appended. */
  readonly logFile?: string
}

const PAUSE_MS = 50
const START_TIMEOUT_MS = 60_000
const MAX_LOG_CHARS = 4000

/**
 * Waits until the server answers.
 * @param assertRunning called between attempts; an error that it throws ends the wait
 * @throws Error with the last failure after a minute
 */
export async function waitUntilReady(
  server: PrivateServer,
  assertRunning: () => void | Promise<void>,
): Promise<void> {
  const ping = () =>
    server.ping().catch((error: unknown) => {
      throw new Error(`${server.title} did not answer within ${START_TIMEOUT_MS / 1000} s: ${error}`)
    })
  await retry(ping, {
    timeoutMs: START_TIMEOUT_MS,
    pauseMs: () => PAUSE_MS,
    beforePause: assertRunning,
  })
}

/** The servers that run. They end with this process. */
const children = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

/**
 * Starts a server as a child process and waits until it answers. `stop` ends it with SIGTERM or SIGKILL and resolves
 * when it has exited.
 * @throws Error with the end of its log if the server does not start
 */
export async function runServer(server: PrivateServer, { env, logFile }: RunOptions = {}) {
  // The server runs in its own process group, so that a Ctrl-C in the terminal signals only this process. This
  // process stops the server after the last client has finished.
  const child = spawn(server.program, server.args, { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  children.add(child)
  const exited = once(child, 'exit').finally(() => children.delete(child))
  let log = ''
  const output = logFile === undefined ? undefined : createWriteStream(logFile, { flags: 'a' })
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-MAX_LOG_CHARS)
      output?.write(text)
    })

  async function stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    child.kill(signal)
    await exited
  }

  const isRunning = () => child.exitCode === null && child.signalCode === null

  await waitUntilReady(server, () => {
    if (!isRunning())
      throw new Error(`${server.title} exited with ${child.exitCode ?? child.signalCode}:\n${log}`)
  }).catch(async error => {
    await stop('SIGKILL')
    throw error
  })
  return {
    stop,
    /** Resolves when the server has exited. */
    exited,
    /** The process id while the server runs. */
    pid: () => (isRunning() ? child.pid : undefined),
  }
}
