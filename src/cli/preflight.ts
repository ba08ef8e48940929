// Checks and migrations that run before the service is started, so that a misconfiguration is reported early.
import type { Config } from '../config/config.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'
import { untilFree } from '../core/listen.ts'
import { createLog } from '../core/log.ts'
import { retry } from '../core/retry.ts'
import { isDemoted, isNotUpYet } from '../database/driver-errors.ts'
import { migrate } from '../database/migrator.ts'

const PAUSE_MS = 500

/** @throws FatalError for the first port that cannot be listened on; the message says what to do */
export async function assertPortsFree({ ports, host, control }: Pick<Config, 'ports' | 'host' | 'control'>) {
  for (const { label, port } of ports) {
    await untilFree({ host, port }, `data port ${label}`)
    await untilFree({ host: control.host, port: port + control.offset }, `control port of ${label}`)
  }
}

/** Returns the error for a database that does not respond, or accepts no writes. */
export const unreachable = (error: unknown) =>
  new Error(
    isDemoted(error)
      ? `the database accepts no writes (${reasonOf(error)}): name a server that does in DATABASE_URL, or end its read-only mode`
      : `the database cannot be reached (${reasonOf(error)}): start it, or correct DATABASE_URL`,
  )

/**
 * Migrates the database. Retries while the database is starting.
 * @param print called with a line before each step that can take several seconds
 * @param options.timeoutMs how many milliseconds to retry; 0 allows one attempt
 * @param options.onNotice called with what an operator should know about the migrations
 * @returns the names of the applied migrations
 * @throws Error whose message says what to do
 */
export async function migrateWhenUp(
  url: string,
  print: (line: string) => void,
  { timeoutMs = 30_000, onNotice = print } = {},
): Promise<string[]> {
  // One log for all attempts: each log adds a listener for the exit of the process.
  const log = createLog('warn', 'migrate')
  print('migrating the database')
  try {
    const applied = await retry(() => migrate(url, log, onNotice), {
      timeoutMs,
      pauseMs: () => PAUSE_MS,
      isTransient: isNotUpYet,
      beforePause: (error, attempt) => {
        if (attempt === 1) print(`waiting for the database: ${reasonOf(error)}`)
      },
    })
    if (applied.length > 0) print(`migrated the database: ${applied.join(', ')}`)
    return applied
  } catch (error) {
    if (isNotUpYet(error)) throw unreachable(error)
    if (!hasCode(error)) throw error
    throw new Error(
      `the database cannot be migrated (${reasonOf(error)}): correct DATABASE_URL, the settings of the server, or the privileges of its user`,
    )
  }
}
