// What MySQL and Redis have in common for whoever runs them.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { retry } from '../../core/retry.ts'

/** A server that is ready to be run: as a child process or under a process manager. It stays in the foreground. */
export interface PrivateServer {
  /** In words, for people: "MariaDB 10.11.6". */
  readonly title: string
  readonly program: string
  readonly args: readonly string[]
  /** For DATABASE_URL or REDIS_URL. */
  readonly url: string
  /** One attempt to be answered; rejects while the server is not ready. */
  ping(): Promise<void>
}

export interface ServerOptions {
  /** Where its data are, in a folder of its own. */
  readonly base: string
  /** Whether what was written must outlast a crash of the machine; tests do without and are faster. */
  readonly durable: boolean
  /** Takes a line about a step that is going to take a while. */
  readonly print: (line: string) => void
}

const PAUSE_MS = 50
const START_TIMEOUT_MS = 60_000

/**
 * Waits until the server answers.
 * @param assertRunning called between attempts; what it throws ends the waiting
 * @throws Error after `timeoutMs`, with the last refusal
 */
export async function untilAnswers(
  server: PrivateServer,
  timeoutMs: number,
  assertRunning: () => void | Promise<void>,
): Promise<void> {
  const ping = () =>
    server.ping().catch((error: unknown) => {
      throw new Error(`${server.title} has not answered within ${timeoutMs / 1000} s: ${error}`)
    })
  await retry(ping, {
    timeoutMs,
    pauseMs: () => PAUSE_MS,
    isTransient: () => true,
    beforePause: assertRunning,
  })
}

/**
 * Runs a server until `stop`, which resolves once it has ended: cleanly, or at once with SIGKILL.
 * @param env this process's environment unless given
 * @throws Error with the last lines of its log where it does not come up
 */
export async function runServer(server: PrivateServer, env?: NodeJS.ProcessEnv) {
  // In a process group of its own: a Ctrl-C at the terminal is for us, who stop it once nobody uses it any more.
  const child = spawn(server.program, server.args, { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const exited = once(child, 'exit')
  let log = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (log = (log + text).slice(-4000)))

  async function stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    child.kill(signal)
    await exited
    process.off('exit', kill)
  }

  await untilAnswers(server, START_TIMEOUT_MS, () => {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`${server.title} ended with ${child.exitCode ?? child.signalCode}:\n${log}`)
  }).catch(async error => {
    await stop('SIGKILL')
    throw error
  })
  return { child, stop }
}
