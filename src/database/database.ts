// Access to the database: Knex with its pool, transactions with retries on contention, and outage detection.
import type { Knex } from 'knex'
import type { Config } from '../config/config.ts'
import { unavailable } from '../core/api-error.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'
import { exitCodes, FatalError } from '../core/exit-codes.ts'
import type { Log } from '../core/log.ts'
import { retry } from '../core/retry.ts'
import { createSemaphore } from '../core/semaphore.ts'
import { createCompaction } from './counting/compaction.ts'
import { storeDerivedRows } from './derived-rows.ts'
import {
  isContention,
  isFailure,
  isLocked,
  isNotUpYet,
  rejectionOf,
  retryContention,
  translate,
} from './driver-errors.ts'
import { createEpochs } from './epochs.ts'
import { createNumbering } from './feed/numbering.ts'
import { createLane } from './lane/lane.ts'
import type { Item, Writer, WriterOptions } from './lane/writer.ts'
import { assertMigrated } from './migrator.ts'
import { createOutage } from './outage.ts'
import { clientOf, openPool, send, withConnection } from './pool.ts'
import { createPageTurns } from './reading/page-turns.ts'
import { trySnapshot } from './reading/trial.ts'
import {
  createStatements,
  type RunTransaction,
  type Statements,
  type Transaction,
  transact,
} from './transaction.ts'

/** The longest pause between two attempts to reach the database at the start. */
const MAX_READY_PAUSE_MS = 2000
/** Fewer tries cost more transactions. With more tries, the writes of the group wait longer. */
const MAX_GROUP_TRIES = 3
/** The time for each statement of a page in its trial. A fast page takes this long on a busy server; with more, trials hold up each other. */
const TRIAL_MS = 10

/** Each statement throws an ApiError `unavailable` if the database is unreachable. */
export type Database = ReturnType<typeof createDatabase>

/**
 * Waits, with backoff, until the database is reachable.
 * @throws FatalError if it rejects the connection, or if the code cannot use its schema
 */
async function untilReady(knex: Knex, log: Log): Promise<void> {
  let logged: string | undefined
  try {
    await retry(() => assertMigrated(knex), {
      timeoutMs: Infinity,
      pauseMs: attempt => Math.min(MAX_READY_PAUSE_MS, 50 * 2 ** attempt),
      isTransient: isNotUpYet,
      beforePause(error) {
        const reason = reasonOf(error)
        if (reason !== logged) log.warn({ reason }, 'waiting for the database')
        logged = reason
      },
    })
  } catch (error) {
    // The driver rejects a parameter of the URL.
    if (error instanceof TypeError)
      throw new FatalError(
        exitCodes.configuration,
        `the database cannot be used (${error.message}): correct DATABASE_URL`,
      )
    throw hasCode(error) ? new FatalError(exitCodes.noWorkers, rejectionOf(error)) : error
  }
}

/** @param recordsEvents whether writes append events to the change feed */
export function createDatabase(
  settings: Config['database'] & { url: string },
  log: Log,
  recordsEvents = false,
) {
  const epochs = createEpochs()
  const knex = openPool(
    settings.url,
    {
      max: settings.poolMax,
      acquireTimeoutMs: settings.acquireTimeoutMs,
      silenceTimeoutMs: settings.queryTimeoutMs,
      epochs,
    },
    log,
  )
  // Knex removes its reference to the pool on close, but the worker still reports the pool in heartbeats.
  const { pool } = clientOf(knex)
  const outage = createOutage(settings, epochs, log)
  /** Set while `ready` waits. */
  let waitsSinceMs: number | undefined

  /** Runs an operation for a request. */
  async function serve<T>(operation: () => PromiseLike<T>): Promise<T> {
    try {
      return await operation()
    } catch (error) {
      // The outage is known before the request fails, so that its failure needs no log line of its own.
      if (isFailure(error) && outage.sinceMs() === undefined) await outage.probe()
      throw isFailure(error) && outage.sinceMs() !== undefined ? unavailable(error) : translate(error)
    }
  }

  /** Runs a read for a request, and repeats it on contention: a change of the schema can end it, on Galera that of any server. */
  const read = <T>(operation: () => PromiseLike<T>): Promise<T> =>
    serve(() => retryContention(operation, settings.queryTimeoutMs))

  // Transactions of writes use up to half of the connections, and pages that can be slow up to two fifths, of which one is for
  // trials. One of ten is left to other reads.
  const writeSlots = Math.max(1, Math.floor(settings.poolMax / 2))
  const pageTurns = Math.max(1, Math.floor((2 * settings.poolMax) / 5) - 1)
  const inPageTurn = createPageTurns(pageTurns, settings.acquireTimeoutMs)
  const inWriteSlot = createSemaphore(writeSlots, settings.acquireTimeoutMs)

  /** Runs a transaction. After it, its events get their numbers, and after some transactions, a compaction of the counts begins. */
  async function runTransaction<T>(act: (trx: Transaction) => Promise<T>): Promise<T> {
    const { result, countRows, hasEvents } = await transact(knex, async trx => {
      const result = await act(trx)
      return { result, ...(await storeDerivedRows(trx, recordsEvents)) }
    })
    compaction.after(countRows)
    if (hasEvents) numbering.requestAfterWrite()
    return result
  }

  /** Runs a transaction, and repeats it as long as an error `isTransient`, at most `maxTries` times. */
  const attempt = <T>(
    act: (trx: Transaction) => Promise<T>,
    isTransient: (error: unknown) => boolean,
    maxTries = Infinity,
  ): Promise<T> =>
    retryContention(
      () => inWriteSlot(() => runTransaction(act)),
      settings.queryTimeoutMs,
      (error, tries) => tries < maxTries && isTransient(error),
    )

  const transaction: RunTransaction = act => serve(() => attempt(act, isContention))
  const compaction = createCompaction(transaction)
  const numbering = createNumbering(transaction, log)

  const lane = createLane({
    // A conflict of several writes can be that of one of them: on a database cluster, one hot row lets the whole COMMIT fail.
    attempt: (act, size) =>
      attempt(act, error => isContention(error) && !isLocked(error), size > 1 ? MAX_GROUP_TRIES : undefined),
    inSingleSlot: createSemaphore(Math.max(1, Math.floor(writeSlots / 2)), settings.acquireTimeoutMs),
    // One slot is for the write that waits for its lock in the database (see `lane/locked-writes.ts`), two are for all others.
    maxWaiting: Math.max(0, writeSlots - 3),
    timeoutMs: settings.queryTimeoutMs,
  })

  return {
    /** Builds statements. They are executed with `select`. */
    knex,
    ...createStatements(knex, (sql, values) =>
      read(() => withConnection(knex, connection => send(knex, connection, sql, values))),
    ),
    /**
     * Runs a transaction, and repeats it on contention. Writes of records go through `createWriter`.
     * @throws ApiError `unavailable` like a statement, and after queryTimeoutMs of contention
     */
    transaction,
    /** Creates a writer of records, see `lane/lane.ts`. The writers of a database share one lane. */
    createWriter<I extends Item>(options: WriterOptions<I>): Writer<I> {
      const { write, writeOnce } = lane.createWriter(options)
      return {
        write: item => serve(() => write(item)),
        writeOnce: (item, receipt) => serve(() => writeOnce(item, receipt)),
      }
    },
    /**
     * Runs a page whose cost can grow with the number of records, in its turn (see `reading/page-turns.ts`).
     * @param act reads the same page, for a trial
     */
    inPageTurn: <T>(page: () => Promise<T>, act: (on: Statements) => Promise<T>) =>
      inPageTurn(page, () => read(() => trySnapshot(knex, act, TRIAL_MS))),
    /** Runs reads in one consistent snapshot, and repeats them on contention. */
    snapshot: <T>(act: (trx: Transaction) => Promise<T>) =>
      read(() => transact(knex, act, 'REPEATABLE READ')),
    /** Runs reads that return what other transactions have not committed yet. */
    uncommitted: <T>(act: (trx: Transaction) => Promise<T>) =>
      read(() => transact(knex, act, 'READ UNCOMMITTED')),
    /** Whether writes append events to the change feed. */
    recordsEvents,
    numbering,
    /** Moves the recorded changes of counts into `counts`. */
    compact: compaction.compact,
    /** The start of the current outage, or of `ready`, as `performance.now()`; undefined while the database can serve. */
    downSinceMs: () => waitsSinceMs ?? outage.sinceMs(),
    /** Probes the database. Only the result of a probe begins or ends an outage, and is logged. */
    probe: outage.probe,
    /** Waits as `untilReady`. @throws FatalError */
    async ready(): Promise<void> {
      waitsSinceMs = performance.now()
      await untilReady(knex, log)
      waitsSinceMs = undefined
    },
    /** Returns the numbers of used and free connections, of pending acquires, and the size of the pool. */
    pool: () => ({
      used: pool.numUsed(),
      free: pool.numFree(),
      waiting: pool.numPendingAcquires(),
      max: pool.max,
    }),
    close: () => Promise.all([outage.close(), knex.destroy()]),
  }
}
