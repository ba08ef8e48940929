// The database: Knex with its pool, transactions that outlast a deadlock, and whether it can be reached.
import type { Knex } from 'knex'
import type { Config } from '../config/config.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import { retry } from '../core/retry.ts'
import { isNotUpYet, isUnreachable, RefusedError, retryContention, translate } from './driver-errors.ts'
import { assertMigrated } from './migrator.ts'
import { openPool } from './pool.ts'

const MAX_WAIT_MS = 2000

export interface Database {
  /** Builds statements; what it is given to run goes through `run` or `transaction`. */
  readonly knex: Knex
  /** Runs one statement. @throws ApiError `unavailable` where the database cannot be reached */
  run<T>(statement: (knex: Knex) => PromiseLike<T>): Promise<T>
  /**
   * Runs SQL that was compiled before; an array among `values` is a list, an array of arrays a list of rows.
   * Rejects like `run`, or within the transaction `on` as that does.
   */
  query(sql: string, values: readonly unknown[], on?: Knex.Transaction): Promise<Record<string, unknown>[]>
  /** The same for what changes rows. */
  execute(
    sql: string,
    values: readonly unknown[],
    on: Knex.Transaction,
  ): Promise<{ readonly insertId: number }>
  /** Runs a transaction as a whole, again if another one is in its way. @throws ApiError `unavailable` as above */
  transaction<T>(act: (trx: Knex.Transaction) => Promise<T>): Promise<T>
  /** Repeats what fails because another transaction is in its way. @throws ApiError `unavailable` where that lasts */
  retryOnContention<T>(attempt: () => Promise<T>): Promise<T>
  /** Runs reads that all see the same moment. */
  snapshot<T>(act: (trx: Knex.Transaction) => Promise<T>): Promise<T>
  /** Since when the database has been out of reach, as `Date.now()`; undefined while it answers. */
  downSinceMs(): number | undefined
  /** Asks whether the database answers, so that `downSinceMs` is right without traffic, too. */
  probe(): Promise<void>
  /**
   * Waits, with backoff, for a database that answers.
   * @throws UnmigratedError if its schema is older than the code, RefusedError if it does not let us in
   */
  ready(): Promise<void>
  /** The pool's connections, how many requests wait for one, and how many there can be. */
  pool(): { used: number; free: number; waiting: number; max: number }
  close(): Promise<void>
}

export function createDatabase(settings: Config['database'] & { url: string }, log: Log): Database {
  const knex = openPool(
    settings.url,
    {
      max: settings.poolMax,
      acquireTimeoutMs: settings.acquireTimeoutMs,
      silenceTimeoutMs: settings.queryTimeoutMs,
    },
    log,
  )
  // Knex forgets it when it is closed, while the worker still tells of itself.
  const { pool } = knex.client
  let downSinceMs: number | undefined

  function noteAnswer(): void {
    if (downSinceMs === undefined) return
    log.info({ afterMs: Date.now() - downSinceMs }, 'the database answers again')
    downSinceMs = undefined
  }

  async function watched<T>(attempt: () => PromiseLike<T>): Promise<T> {
    try {
      const result = await attempt()
      noteAnswer()
      return result
    } catch (error) {
      if (!isUnreachable(error)) noteAnswer()
      else if (downSinceMs === undefined) {
        downSinceMs = Date.now()
        log.warn({ reason: reasonOf(error) }, 'the database cannot be reached')
      }
      throw translate(error)
    }
  }

  /** Past Knex's query builder, whose work would be the same each time. */
  async function send<T>(on: Knex, sql: string, values: readonly unknown[]): Promise<T> {
    const connection = await on.client.acquireConnection()
    try {
      return await new Promise((resolve, reject) => {
        connection.query(sql, values, (error: unknown, result: T) =>
          error ? reject(error) : resolve(result),
        )
      })
    } finally {
      await on.client.releaseConnection(connection)
    }
  }

  const retryOnContention = <T>(attempt: () => Promise<T>) =>
    watched(() => retryContention(attempt, settings.queryTimeoutMs))

  return {
    knex,
    run: statement => watched(() => statement(knex)),
    query: (sql, values, on) =>
      on === undefined ? watched(() => send(knex, sql, values)) : send(on, sql, values),
    execute: (sql, values, on) => send(on, sql, values),
    transaction: act => retryOnContention(() => knex.transaction(act)),
    retryOnContention,
    snapshot: act => watched(() => knex.transaction(act, { isolationLevel: 'repeatable read' })),
    downSinceMs: () => downSinceMs,
    probe: () => watched(() => knex.raw('SELECT 1')).then(noteAnswer, () => {}),
    ready: () =>
      retry(() => assertMigrated(knex), {
        timeoutMs: Infinity,
        pauseMs: attempt => Math.min(MAX_WAIT_MS, 50 * 2 ** attempt),
        isTransient: isNotUpYet,
        beforePause: error => log.info({ reason: reasonOf(error) }, 'waiting for the database'),
      }).catch((error: unknown) => {
        throw hasCode(error) ? new RefusedError(error) : error
      }),
    pool: () => ({
      used: pool.numUsed(),
      free: pool.numFree(),
      waiting: pool.numPendingAcquires(),
      max: pool.max,
    }),
    close: () => knex.destroy(),
  }
}
