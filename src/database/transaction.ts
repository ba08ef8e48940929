// Transactions that are atomic also if the server refuses BEGIN, ROLLBACK or COMMIT: the pool closes the connection then,
// so that the server rolls back. If the answer to COMMIT is lost, the outcome is looked up on another connection.
import type { Knex } from 'knex'
import { unavailable } from '../core/api-error.ts'
import { retry } from '../core/retry.ts'
import { isContention, isUnreachable } from './driver-errors.ts'

/** The versions of a row before and after a transaction; undefined: the row does not exist. */
export interface RowChange {
  readonly table: string
  readonly id: number
  readonly before: number | undefined
  readonly after: number | undefined
}

const LOOKUP_TIMEOUT_MS = 3000
const LOOKUP_PAUSE_MS = 100

/** One of the changes of each transaction. Versions are random, so a row shows whether its transaction was stored. */
const changes = new WeakMap<Knex.Transaction, RowChange>()

/** Names a row that the transaction changes. Without one, a COMMIT without an answer is an error. */
export function noteChange(trx: Knex.Transaction, change: RowChange): void {
  changes.set(trx, change)
}

/** Returns undefined if the outcome is unknown: another transaction has changed the row since. */
async function wasStored(knex: Knex, { table, id, before, after }: RowChange): Promise<boolean | undefined> {
  // The lock waits for the end of the transaction, in case the server is still executing its COMMIT.
  const read = async () => knex(table).where({ id }).forShare().first('version')
  const row = await retry(read, {
    timeoutMs: LOOKUP_TIMEOUT_MS,
    pauseMs: () => LOOKUP_PAUSE_MS,
    isTransient: error => isUnreachable(error) || isContention(error),
  })
  const version: unknown = row?.version
  if (version === after) return true
  return version === before ? false : undefined
}

/**
 * Returns if the transaction was stored although COMMIT failed.
 * @throws `error` if it was not stored, ApiError `unavailable` if the outcome is unknown
 */
async function checkStored(knex: Knex, change: RowChange | undefined, error: unknown): Promise<void> {
  if (change === undefined || isContention(error)) throw error
  const stored = await wasStored(knex, change).catch(() => undefined)
  if (stored === false) throw error
  if (stored === undefined)
    throw unavailable(
      error,
      'the database is temporarily unavailable, and it is unknown whether this write was stored; please repeat the ' +
        'request, and send each POST with an Idempotency-Key, so that a repetition is safe',
    )
}

/**
 * Runs `act` in a transaction.
 * @throws the error of `act`, otherwise the error of BEGIN or COMMIT; ApiError `unavailable` if the outcome is unknown
 */
export async function transact<T>(
  knex: Knex,
  act: (trx: Knex.Transaction) => Promise<T>,
  config?: Knex.TransactionConfig,
): Promise<T> {
  const trx = await knex.transaction(config)
  // If BEGIN was refused, Knex returns a completed transaction. Statements would run in autocommit mode.
  if (trx.isCompleted()) await trx.executionPromise
  let result: T
  try {
    result = await act(trx)
  } catch (error) {
    await trx.rollback(error)
    throw error
  }
  await trx.commit()
  await trx.executionPromise.catch((error: unknown) => checkStored(knex, changes.get(trx), error))
  return result
}
