// Decides whether the database can serve requests: a probe asks it at intervals, and also when a request has failed.
import { setImmediate } from 'node:timers/promises'
import type { Config } from '../config/config.ts'
import { reasonOf } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import { isContention, isNotUpYet } from './driver-errors.ts'
import { type Epochs, limitSilence } from './epochs.ts'
import { assertMigrated } from './migrator.ts'
import { openPool } from './pool.ts'
import { BEGIN_WRITE } from './session.ts'

/** A healthy server answers in milliseconds. A database cluster that agrees on the loss of a server can take seconds. */
const TIMEOUT_MS = 2000

/** @param epochs those of the pool for requests, whose connections must not be used again after an outage has begun */
export function createOutage(
  { url, queryTimeoutMs }: Config['database'] & { url: string },
  epochs: Epochs,
  log: Log,
) {
  const timeoutMs = Math.min(TIMEOUT_MS, queryTimeoutMs)
  // A connection of its own: a probe waits neither for requests nor as long as requests may wait.
  const knex = openPool(
    url,
    { max: 1, acquireTimeoutMs: timeoutMs, silenceTimeoutMs: timeoutMs, epochs },
    log,
  )
  let sinceMs: number | undefined
  /** The reasons that were logged in this outage. Two can alternate, if probes reach different servers. */
  const logged = new Set<string>()
  let running: Promise<void> | undefined
  let closed = false

  async function ask(): Promise<void> {
    const startedMs = performance.now()
    // What has arrived is read first: after a stall, the connection can have ended.
    await setImmediate()
    try {
      await knex.raw(BEGIN_WRITE)
      // An empty database can have taken its place.
      await assertMigrated(knex).finally(() => knex.raw('ROLLBACK'))
      if (sinceMs !== undefined) {
        log.info({ afterMs: Math.round(performance.now() - sinceMs) }, 'database reachable again')
        limitSilence(epochs, timeoutMs)
      }
      sinceMs = undefined
      logged.clear()
    } catch (error) {
      if (closed) return
      const reason = reasonOf(error)
      // A later reason is logged only if an operator must act: the server is up again, but rejects the password.
      if (sinceMs !== undefined && (isNotUpYet(error) || isContention(error) || logged.has(reason))) return
      if (sinceMs === undefined) epochs.number++
      sinceMs ??= startedMs
      logged.add(reason)
      log.warn({ reason }, 'database unreachable')
    }
  }

  return {
    /** Returns the start of the current outage, as `performance.now()`; undefined while the database can serve. */
    sinceMs: () => sinceMs,
    probe() {
      running ??= ask().finally(() => (running = undefined))
      return running
    },
    close() {
      closed = true
      return knex.destroy()
    },
  }
}
