// Transactions that are atomic also if the server refuses BEGIN, ROLLBACK or COMMIT: the pool closes the connection then,
// so that the server rolls back. If the answer to COMMIT is lost, the outcome is looked up on another connection.
// `knex.transaction` creates a client of its own for each transaction, which costs more than the statements of a write.
import type { Knex } from 'knex'
import { unavailable } from '../core/api-error.ts'
import { retry } from '../core/retry.ts'
import { isContention, isUnreachable } from './driver-errors.ts'
import { type PoolConnection, send, withConnection } from './pool.ts'

/** Executes statements: each one alone, or all of them in one transaction. */
export interface Statements {
  /** Executes a statement of Knex's query builder. */
  run<T>(statement: (knex: Knex) => Knex.ChainableInterface<T>): Promise<T>
  /** Executes SQL text. An array in `values` is a list, an array of arrays is a list of rows. */
  query(sql: string, values: readonly unknown[]): Promise<Record<string, unknown>[]>
}

interface Modified {
  readonly insertId: number
  /** Includes rows that already had the new values. */
  readonly affectedRows: number
  /** The rows of RETURNING, which MariaDB supports. */
  readonly returned?: readonly Record<string, unknown>[]
}

/** The statements of a transaction. They fail after its end. */
export interface Transaction extends Statements {
  /** Executes SQL text that modifies rows. */
  execute(sql: string, values: readonly unknown[]): Promise<Modified>
  /**
   * Whether statements wait for locks of other sessions. Outside of the lock queue, they fail at once wherever the database
   * offers this (NOWAIT, SKIP LOCKED).
   */
  readonly mayWait: boolean
  /**
   * Names a row that the transaction changes. Versions are random, so the row shows whether the transaction was stored.
   * Without one, a COMMIT without an answer is an error.
   */
  noteChange(change: RowChange): void
  /** Calls `action` after the COMMIT. */
  afterCommit(action: () => void): void
}

/** The versions of a row before and after a transaction; undefined: the row does not exist. */
interface RowChange {
  readonly table: string
  readonly id: number
  readonly before: number | undefined
  readonly after: number | undefined
}

const LOOKUP_TIMEOUT_MS = 3000
const LOOKUP_PAUSE_MS = 100

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

/** Creates the statements of a transaction that has begun on `connection`. */
function openTransaction(knex: Knex, connection: PoolConnection, mayWait: boolean) {
  const commitActions: (() => void)[] = []
  let change: RowChange | undefined
  let hasEnded = false
  /** After the end, the connection belongs to another transaction, or executes in autocommit mode. */
  function assertOpen(): void {
    if (hasEnded) throw new Error('the transaction is already complete')
  }
  async function sendOpen<T>(sql: string, values: readonly unknown[]): Promise<T> {
    assertOpen()
    return send(knex, connection, sql, values)
  }
  const trx: Transaction = {
    async run(statement) {
      assertOpen()
      return statement(knex).connection(connection)
    },
    query: sendOpen,
    async execute(sql, values) {
      const result = await sendOpen<Modified | Record<string, unknown>[]>(sql, values)
      return Array.isArray(result) ? { insertId: 0, affectedRows: result.length, returned: result } : result
    },
    mayWait,
    noteChange(noted) {
      change = noted
    },
    afterCommit(action) {
      commitActions.push(action)
    },
  }
  async function end(sql: 'COMMIT' | 'ROLLBACK'): Promise<void> {
    hasEnded = true
    await send(knex, connection, sql)
  }
  return { trx, end, commitActions, change: () => change }
}

interface TransactionOptions {
  readonly mayWait?: boolean
  /** Whether all reads are of one consistent snapshot. */
  readonly isSnapshot?: boolean
}

/**
 * Runs `act` in a transaction.
 * @throws the error of `act`, otherwise the error of BEGIN or COMMIT; ApiError `unavailable` if the outcome is unknown
 */
export async function transact<T>(
  knex: Knex,
  act: (trx: Transaction) => Promise<T>,
  { mayWait = false, isSnapshot = false }: TransactionOptions = {},
): Promise<T> {
  const { result, open, commitError } = await withConnection(knex, async connection => {
    if (isSnapshot) await send(knex, connection, 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
    await send(knex, connection, 'BEGIN')
    const open = openTransaction(knex, connection, mayWait)
    let result: T
    try {
      result = await act(open.trx)
    } catch (error) {
      await open.end('ROLLBACK').catch(() => {})
      throw error
    }
    const commitError: unknown = await open.end('COMMIT').catch((error: unknown) => error)
    return { result, open, commitError }
  })
  if (commitError !== undefined) await checkStored(knex, open.change(), commitError)
  for (const action of open.commitActions) action()
  return result
}
