// Transactions that are atomic also if the server refuses ROLLBACK or COMMIT: the pool closes the connection then, so that the
// server rolls back. If the answer to COMMIT is lost, the outcome is looked up on another connection.
// BEGIN is sent with the first statement and COMMIT with the last ones: each round trip costs as much as a small statement.
// `knex.transaction` creates a client of its own for each transaction, which costs more than the statements of a write.
import type { Knex } from 'knex'
import { unavailable } from '../core/api-error.ts'
import { retry } from '../core/retry.ts'
import { type Change, isStored, type Proof, proofsOf } from './changes.ts'
import { isContention, isUnreachable } from './driver-errors.ts'
import { type PoolConnection, type SqlStatement, sendTogether, withConnection } from './pool.ts'
import { type Columns, type Modified, modifiedOf, rowsOf } from './results.ts'

/** Executes statements: each one alone, or all of them in one transaction. */
export interface Statements {
  /** Executes SQL text, and returns its rows. An array in `values` is a list, an array of arrays is a list of rows. */
  query(sql: string, values: readonly unknown[]): Promise<Columns[]>
  /** Executes a query of Knex's query builder. */
  select(build: (knex: Knex) => Knex.QueryBuilder): Promise<Columns[]>
}

/** The statements of a transaction. They fail after its end. */
export interface Transaction extends Statements {
  /** Executes SQL text that modifies rows. */
  execute(sql: string, values: readonly unknown[]): Promise<Modified>
  /** Executes statements with `sendTogether`. @returns their results, for the functions of results.ts */
  executeAll(...statements: readonly SqlStatement[]): Promise<unknown[]>
  /**
   * Says what the transaction has changed. What it stores beside its rows follows from that: counts, events and generations.
   * The changed rows also show whether the transaction was stored. Without a change, a COMMIT without an answer is an error.
   */
  record(...changes: readonly Change[]): void
  /** The changes so far, in their order. */
  readonly changes: readonly Change[]
}

type Send = (sql: string, values: readonly unknown[]) => Promise<unknown>

/** @param send executes SQL text, and returns the result of the driver */
export const createStatements = (knex: Knex, send: Send): Statements => ({
  query: async (sql, values) => rowsOf(await send(sql, values)),
  async select(build) {
    const { sql, bindings } = build(knex).toSQL().toNative()
    return rowsOf(await send(sql, bindings))
  },
})

/** Runs a transaction, and repeats it on contention. */
export type RunTransaction = <T>(act: (trx: Transaction) => Promise<T>) => Promise<T>

const LOOKUP_TIMEOUT_MS = 3000
const LOOKUP_PAUSE_MS = 100

/** Returns undefined if the outcome is unknown: other transactions have changed the rows since. */
async function wasStored(knex: Knex, proofs: readonly Proof[]): Promise<boolean | undefined> {
  const versions = new Map<string, number>()
  for (const table of new Set(proofs.map(proof => proof.table))) {
    const ids = proofs.filter(proof => proof.table === table).map(({ id }) => id)
    // The lock waits for the end of the transaction, in case the server is still executing its COMMIT.
    const read = async () => rowsOf(await knex(table).whereIn('id', ids).forShare().select('id', 'version'))
    const rows = await retry(read, {
      timeoutMs: LOOKUP_TIMEOUT_MS,
      pauseMs: () => LOOKUP_PAUSE_MS,
      isTransient: error => isUnreachable(error) || isContention(error),
    })
    for (const { id, version } of rows) versions.set(`${table} ${id}`, Number(version))
  }
  return isStored(proofs, ({ table, id }) => versions.get(`${table} ${id}`))
}

/**
 * Returns if the transaction was stored although COMMIT failed.
 * @throws `error` if it was not stored, ApiError `unavailable` if the outcome is unknown
 */
async function checkStored(knex: Knex, changes: readonly Change[], error: unknown): Promise<void> {
  const proofs = proofsOf(changes)
  if (proofs.length === 0 || isContention(error)) throw error
  const stored = await wasStored(knex, proofs).catch(() => undefined)
  if (stored === false) throw error
  if (stored === undefined)
    throw unavailable(
      error,
      'the database is temporarily unavailable, and it is unknown whether this write was stored; please repeat the ' +
        'request, and send each POST with an Idempotency-Key, so that a repetition is safe',
    )
}

/** @param begin the statements that begin the transaction: they are sent with the first one */
function openTransaction(knex: Knex, connection: PoolConnection, begin: readonly SqlStatement[]) {
  const changes: Change[] = []
  let hasBegun = false
  let hasEnded = false
  /** After the end, the connection belongs to another transaction, or executes in autocommit mode. */
  function assertOpen(): void {
    if (hasEnded) throw new Error('the transaction is already complete')
  }
  async function sendAll(statements: readonly SqlStatement[]): Promise<unknown[]> {
    const before = hasBegun ? [] : begin
    hasBegun = true
    const results = await sendTogether(knex, connection, [...before, ...statements])
    return results.slice(before.length)
  }
  async function executeAll(...statements: readonly SqlStatement[]): Promise<unknown[]> {
    assertOpen()
    return sendAll(statements)
  }
  const executeOne: Send = async (...statement) => (await executeAll(statement))[0]
  const trx: Transaction = {
    ...createStatements(knex, executeOne),
    execute: async (sql, values) => modifiedOf(await executeOne(sql, values)),
    executeAll,
    record(...recorded) {
      assertOpen()
      for (const change of recorded) changes.push(change)
    },
    changes,
  }
  /** @param before statements that are sent with the last one */
  async function end(last: 'COMMIT' | 'ROLLBACK', before: readonly SqlStatement[] = []): Promise<void> {
    hasEnded = true
    await sendAll([...before, [last, []]])
  }
  return { trx, end }
}

interface TransactionOptions {
  /**
   * The isolation level, instead of READ COMMITTED. REPEATABLE READ: all reads are of one consistent snapshot. READ
   * UNCOMMITTED: reads return what other transactions have not committed yet.
   */
  readonly isolation?: 'REPEATABLE READ' | 'READ UNCOMMITTED'
  /** Returns the last statements of the transaction, which follow from its changes. */
  readonly lastStatements?: (changes: readonly Change[]) => readonly SqlStatement[]
}

/**
 * Runs `act` in a transaction.
 * @throws the error of `act`, otherwise the error of BEGIN or COMMIT; ApiError `unavailable` if the outcome is unknown
 */
export async function transact<T>(
  knex: Knex,
  act: (trx: Transaction) => Promise<T>,
  { isolation, lastStatements }: TransactionOptions = {},
): Promise<T> {
  const { result, changes, commitError } = await withConnection(knex, async connection => {
    const setLevel: SqlStatement[] =
      isolation === undefined ? [] : [[`SET TRANSACTION ISOLATION LEVEL ${isolation}`, []]]
    const { trx, end } = openTransaction(knex, connection, [...setLevel, ['BEGIN', []]])
    const { changes } = trx
    let result: T
    let last: readonly SqlStatement[] | undefined
    try {
      result = await act(trx)
      last = lastStatements?.(changes)
    } catch (error) {
      await end('ROLLBACK').catch(() => {})
      throw error
    }
    const commitError: unknown = await end('COMMIT', last).catch(async (error: unknown) => {
      // One of the statements before it may have failed: the transaction is open then.
      await end('ROLLBACK').catch(() => {})
      return error
    })
    return { result, changes, commitError }
  })
  if (commitError !== undefined) await checkStored(knex, changes, commitError)
  return result
}
