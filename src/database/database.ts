// Access to the database: Knex with its pool, transactions with retries on contention, and outage detection.
import type { Knex } from 'knex'
import type { Config } from '../config/config.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'
import { exitCodes, FatalError } from '../core/exit-codes.ts'
import type { Log } from '../core/log.ts'
import { retry } from '../core/retry.ts'
import {
  ConflictError,
  isContention,
  isLocked,
  isNotUpYet,
  isUnreachable,
  translate,
} from './driver-errors.ts'
import { contentionPauseMs, createLockQueue, LockedError } from './lock-queue.ts'
import { assertMigrated } from './migrator.ts'
import { createOutage } from './outage.ts'
import { openPool, send, withConnection } from './pool.ts'
import { createKeyedQueues, createSemaphore, type QueueKeys, type Semaphore } from './semaphore.ts'
import { type Statements, type Transaction, transact } from './transaction.ts'

const MAX_WAIT_MS = 2000
/** Fewer cost more transactions, more make the writes of the batch wait longer. */
const MAX_BATCH_TRIES = 3

/** Each statement throws an ApiError `unavailable` if the database is unreachable. */
export interface Database extends Statements {
  /** Builds statements. Statements are executed with `run` or `transaction`. */
  readonly knex: Knex
  /**
   * Runs a transaction and repeats it on contention, in the lock queue if another session holds a lock.
   * @param key the row that it locks first; transactions of this process with the same key run one by one
   * @throws ApiError `unavailable` like a statement, and after queryTimeoutMs of contention
   */
  transaction<T>(act: (trx: Transaction) => Promise<T>, key?: string): Promise<T>
  /**
   * Like `transaction`, but returns `locked` if another session holds a lock.
   * @param size the number of writes, of different requests, in the transaction
   * @throws ConflictError after several conflicts of a transaction with more than one write. On a cluster, one hot row lets
   * the whole transaction fail at its COMMIT, so that its parts are better repeated apart.
   */
  tryTransaction<T>(act: (trx: Transaction) => Promise<T>, size: number): Promise<T | 'locked'>
  /** Like `transaction`, for a transaction that has to wait for the lock `key`. */
  transactionInQueue<T>(key: string, act: (trx: Transaction) => Promise<T>): Promise<T>
  /** The locks of other sessions that transactions wait for. */
  readonly lockedKeys: QueueKeys
  /** Limits the pages whose cost grows with the number of records: they leave connections to all other requests. */
  readonly inPageSlot: Semaphore
  /** Runs reads in one consistent snapshot. */
  snapshot<T>(act: (trx: Transaction) => Promise<T>): Promise<T>
  /** The start of the current outage, as `performance.now()`; undefined while the database can serve. */
  downSinceMs(): number | undefined
  /** Probes the database. Only the result of a probe begins or ends an outage, and is logged. */
  probe(): Promise<void>
  /**
   * Waits, with backoff, until the database is reachable.
   * @throws SchemaError if the code cannot use its schema, FatalError if it rejects the connection
   */
  ready(): Promise<void>
  /** Returns the numbers of used and free connections, of pending acquires, and the size of the pool. */
  pool(): { used: number; free: number; waiting: number; max: number }
  close(): Promise<void>
}

export function createDatabase(settings: Config['database'] & { url: string }, log: Log): Database {
  const epoch = { number: 0 }
  const knex = openPool(
    settings.url,
    {
      max: settings.poolMax,
      acquireTimeoutMs: settings.acquireTimeoutMs,
      silenceTimeoutMs: settings.queryTimeoutMs,
      epoch,
    },
    log,
  )
  // Knex removes its reference to the pool on close, but the worker still reports the pool in heartbeats.
  const { pool } = knex.client
  const outage = createOutage(settings, epoch, log)

  /** Runs an operation for a request. */
  async function serve<T>(operation: () => PromiseLike<T>): Promise<T> {
    try {
      return await operation()
    } catch (error) {
      // The outage is known before the request fails, so that its failure needs no log line of its own.
      if (isUnreachable(error) && outage.sinceMs() === undefined) await outage.probe()
      throw translate(error)
    }
  }

  // A few connections are left to reads, whatever the transactions wait for.
  const fifth = Math.max(1, Math.floor(settings.poolMax / 5))
  const inWriteSlot = createSemaphore(Math.max(1, settings.poolMax - 2 * fifth), settings.acquireTimeoutMs)
  const lockQueue = createLockQueue(act => transact(knex, act, { mayWait: true }), {
    slots: fifth,
    timeoutMs: settings.queryTimeoutMs,
  })

  const inPageSlot = createSemaphore(Math.max(1, settings.poolMax - 3 * fifth), settings.acquireTimeoutMs)

  const rowQueues = createKeyedQueues(settings.queryTimeoutMs)

  /**
   * Runs a transaction, and repeats it after a deadlock or a conflict.
   * @throws an error that `isLocked`, ConflictError
   */
  const attempt = <T>(act: (trx: Transaction) => Promise<T>, size = 1): Promise<T> =>
    retry(() => inWriteSlot(() => transact(knex, act)), {
      timeoutMs: settings.queryTimeoutMs,
      pauseMs: contentionPauseMs,
      isTransient: error => isContention(error) && !isLocked(error),
      beforePause(error, tries) {
        if (size > 1 && tries === MAX_BATCH_TRIES) throw new ConflictError(reasonOf(error))
      },
    })

  /** Like `attempt`, but one by one with the transactions of the same key. */
  function attemptInTurn<T>(act: (trx: Transaction) => Promise<T>, key: string): Promise<T> {
    const queue = rowQueues.join(key)
    return queue.inTurn(() => attempt(act)).finally(queue.leave)
  }

  return {
    knex,
    run: statement => serve(() => statement(knex)),
    query: (sql, values) =>
      serve(() => withConnection(knex, connection => send(knex, connection, sql, values))),
    transaction: (act, key) =>
      serve(async () => {
        try {
          return await (key === undefined ? attempt(act) : attemptInTurn(act, key))
        } catch (error) {
          if (!isLocked(error)) throw error
          return lockQueue.run(error instanceof LockedError ? error.key : 'other locks', act)
        }
      }),
    tryTransaction: (act, size) =>
      serve(() =>
        attempt(act, size).catch((error: unknown) => {
          if (!isLocked(error)) throw error
          return 'locked'
        }),
      ),
    transactionInQueue: (key, act) => serve(() => lockQueue.run(key, act)),
    lockedKeys: lockQueue.keys,
    inPageSlot,
    snapshot: act => serve(() => transact(knex, act, { isSnapshot: true })),
    downSinceMs: outage.sinceMs,
    probe: outage.probe,
    ready: () =>
      retry(() => assertMigrated(knex), {
        timeoutMs: Infinity,
        pauseMs: attempt => Math.min(MAX_WAIT_MS, 50 * 2 ** attempt),
        isTransient: isNotUpYet,
        beforePause: error => log.info({ reason: reasonOf(error) }, 'waiting for the database'),
      }).catch((error: unknown) => {
        if (!hasCode(error)) throw error
        throw new FatalError(
          exitCodes.noWorkers,
          `the database rejects the connection (${reasonOf(error)}): correct DATABASE_URL, or the privileges of its user`,
        )
      }),
    pool: () => ({
      used: pool.numUsed(),
      free: pool.numFree(),
      waiting: pool.numPendingAcquires(),
      max: pool.max,
    }),
    close: async () => {
      await Promise.all([outage.close(), knex.destroy()])
    },
  }
}
