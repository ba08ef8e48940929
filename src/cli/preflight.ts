// What has to be so before the service is started: looked at early, so that minutes are not spent in vain.
import type { Config } from '../config/config.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'
import { untilFree } from '../core/listen.ts'
import { createLog } from '../core/log.ts'
import { retry } from '../core/retry.ts'
import { isNotUpYet } from '../database/driver-errors.ts'
import { migrate } from '../database/migrator.ts'

const PAUSE_MS = 500

/** @throws FatalError about the first port that cannot be had, which says what to do */
export async function assertPortsFree({ ports, host, control }: Pick<Config, 'ports' | 'host' | 'control'>) {
  for (const { label, port } of ports)
    for (const [address, number, use] of [
      [host, port, `data port ${label}`],
      [control.host, port + control.offset, `control port of ${label}`],
    ] as const)
      await untilFree({ host: address, port: number }, use)
}

/**
 * Migrates the database, with patience for one that is just starting.
 * @param print takes a line about a step that is going to take a while
 * @returns the names of the migrations that were applied
 * @throws Error that says what to do
 */
export async function migrateWhenUp(
  url: string,
  patienceMs: number,
  print: (line: string) => void,
): Promise<string[]> {
  // One for all attempts: each log listens for the end of the process.
  const log = createLog('warn', 'migrate')
  print('migrating the database')
  try {
    const applied = await retry(() => migrate(url, log), {
      timeoutMs: patienceMs,
      pauseMs: () => PAUSE_MS,
      isTransient: isNotUpYet,
      beforePause: (error, attempt) => {
        if (attempt === 1) print(`waiting for the database: ${reasonOf(error)}`)
      },
    })
    if (applied.length > 0) print(`migrated the database: ${applied.join(', ')}`)
    return applied
  } catch (error) {
    const reason = reasonOf(error)
    if (isNotUpYet(error))
      throw new Error(`the database cannot be reached (${reason}): start it, or correct DATABASE_URL`)
    if (!hasCode(error)) throw error
    throw new Error(
      `the database refuses to be migrated (${reason}): correct DATABASE_URL, or let its user change the schema`,
    )
  }
}
