// What MySQL and Redis have in common for whoever runs them.
import { setTimeout as delay } from 'node:timers/promises'

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
  const giveUpMs = performance.now() + timeoutMs
  for (;;) {
    try {
      return await server.ping()
    } catch (error) {
      await assertRunning()
      if (performance.now() > giveUpMs)
        throw new Error(`${server.title} has not answered within ${timeoutMs / 1000} s: ${error}`)
    }
    await delay(PAUSE_MS)
  }
}
