// Access to the database: Knex with its pool, transactions with retries on contention, and outage detection.
import type { Knex } from 'knex'
import type { Config } from '../config/config.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import { retry } from '../core/retry.ts'
import { isNotUpYet, isUnreachable, RefusedError, retryContention, translate } from './driver-errors.ts'
import { assertMigrated } from './migrator.ts'
import { openPool } from './pool.ts'
import { transact } from './transaction.ts'

const MAX_WAIT_MS = 2000

export interface Database {
  /** Builds statements. Statements are executed with `run` or `transaction`. */
  readonly knex: Knex
  /** Executes one statement. @throws ApiError `unavailable` if the database is unreachable */
  run<T>(statement: (knex: Knex) => PromiseLike<T>): Promise<T>
  /**
   * Executes SQL text. An array in `values` is a list, an array of arrays is a list of rows.
   * @param on the transaction to execute it in; errors are then translated by the transaction
   * @throws ApiError `unavailable` like `run`
   */
  query(sql: string, values: readonly unknown[], on?: Knex.Transaction): Promise<Record<string, unknown>[]>
  /** Executes SQL text that modifies rows. */
  execute(
    sql: string,
    values: readonly unknown[],
    on: Knex.Transaction,
  ): Promise<{ readonly insertId: number }>
  /** Runs a transaction and repeats it on contention. @throws ApiError `unavailable` like `run` */
  transaction<T>(act: (trx: Knex.Transaction) => Promise<T>): Promise<T>
  /**
   * Repeats `attempt` on contention with other transactions.
   * @throws ApiError `unavailable` after queryTimeoutMs
   */
  retryOnContention<T>(attempt: () => Promise<T>): Promise<T>
  /** Runs reads in one consistent snapshot. */
  snapshot<T>(act: (trx: Knex.Transaction) => Promise<T>): Promise<T>
  /** The start of the current outage, as `Date.now()`; undefined while the database is reachable. */
  downSinceMs(): number | undefined
  /** Sends a query to the database, so that `downSinceMs` is also correct without traffic. */
  probe(): Promise<void>
  /**
   * Waits, with backoff, until the database is reachable.
   * @throws UnmigratedError if its schema is older than the code, RefusedError if it rejects the connection
   */
  ready(): Promise<void>
  /** Returns the numbers of used and free connections, of pending acquires, and the size of the pool. */
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
  // Knex removes its reference to the pool on close, but the worker still reports the pool in heartbeats.
  const { pool } = knex.client
  let downSinceMs: number | undefined

  function markReachable(): void {
    if (downSinceMs === undefined) return
    log.info({ afterMs: Date.now() - downSinceMs }, 'database reachable again')
    downSinceMs = undefined
  }

  async function trackOutage<T>(attempt: () => PromiseLike<T>): Promise<T> {
    try {
      const result = await attempt()
      markReachable()
      return result
    } catch (error) {
      if (!isUnreachable(error)) markReachable()
      else if (downSinceMs === undefined) {
        downSinceMs = Date.now()
        log.warn({ reason: reasonOf(error) }, 'database unreachable')
      }
      throw translate(error)
    }
  }

  /** Executes SQL without Knex's query builder, which would compile the same statement each time. */
  async function send<T>(on: Knex | Knex.Transaction, sql: string, values: readonly unknown[]): Promise<T> {
    // The connection of a completed transaction belongs to another one, or executes in autocommit mode.
    if ('isCompleted' in on && on.isCompleted()) throw new Error('the transaction is already complete')
    const connection = await on.client.acquireConnection()
    try {
      const { response } = await on.client._query(connection, { sql, bindings: values })
      return response[0]
    } finally {
      await on.client.releaseConnection(connection)
    }
  }

  const retryOnContention = <T>(attempt: () => Promise<T>) =>
    trackOutage(() => retryContention(attempt, settings.queryTimeoutMs))

  return {
    knex,
    run: statement => trackOutage(() => statement(knex)),
    query: (sql, values, on) =>
      on === undefined ? trackOutage(() => send(knex, sql, values)) : send(on, sql, values),
    execute: (sql, values, on) => send(on, sql, values),
    transaction: act => retryOnContention(() => transact(knex, act)),
    retryOnContention,
    snapshot: act => trackOutage(() => transact(knex, act, { isolationLevel: 'repeatable read' })),
    downSinceMs: () => downSinceMs,
    probe: () => trackOutage(() => knex.raw('SELECT 1')).then(markReachable, () => {}),
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
