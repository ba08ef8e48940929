// What has to be so before the service is started: looked at early, so that minutes are not spent in vain.
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Config } from '../config.ts'
import { listen } from '../listen.ts'
import { createLog } from '../log.ts'
import { isNotUpYet } from '../store/failures.ts'
import { migrate } from '../store/migrate.ts'

const PAUSE_MS = 500

/** @throws FatalError about the first port that cannot be had, which says what to do */
export async function assertPortsFree({ ports, host, control }: Pick<Config, 'ports' | 'host' | 'control'>) {
  for (const { label, port } of ports)
    for (const [address, number, use] of [
      [host, port, `data port ${label}`],
      [control.host, port + control.offset, `control port of ${label}`],
    ] as const) {
      const server = createServer()
      await listen(server, { host: address, port: number }, use)
      server.close()
      await once(server, 'close')
    }
}

/**
 * Migrates the database, with patience for one that is just starting.
 * @param say takes a line about a step that is going to take a while
 * @throws Error that says what to do
 */
export async function migrateWhenUp(
  url: string,
  patienceMs: number,
  say: (line: string) => void,
): Promise<void> {
  const giveUpMs = performance.now() + patienceMs
  say('migrating the database')
  for (let attempt = 1; ; attempt++) {
    try {
      const applied = await migrate(url, createLog('warn', 'migrate'))
      if (applied.length > 0) say(`migrated the database: ${applied.join(', ')}`)
      return
    } catch (error) {
      const reason = error instanceof Error ? error.message || String(error) : String(error)
      if (!(error instanceof Error) || !isNotUpYet(error))
        throw new Error(
          `the database refuses to be migrated (${reason}): correct DATABASE_URL, or let its user change the schema`,
        )
      if (performance.now() > giveUpMs)
        throw new Error(`the database cannot be reached (${reason}): start it, or correct DATABASE_URL`)
      if (attempt === 1) say(`waiting for the database: ${reason}`)
    }
    await delay(PAUSE_MS)
  }
}
