// Transactions that are atomic also if the server refuses BEGIN, ROLLBACK or COMMIT: the pool closes the connection then,
// so that the server rolls back. If the answer to COMMIT is lost, the outcome is looked up (`lost-commit.ts`).
// `knex.transaction` creates a client of its own for each transaction, which costs more than the statements of a write.
import type { Knex } from 'knex'
import type { Change } from './changes.ts'
import { checkStored } from './lost-commit.ts'
import { type PoolConnection, send, withConnection } from './pool.ts'
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
  /**
   * Says what the transaction has changed. What it stores beside its rows follows from that: counts, events and generations.
   * The changed rows also show whether the transaction was stored. Without a change, a COMMIT without an answer is an error.
   */
  record(change: Change): void
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

/** Creates the statements of a transaction that has begun on `connection`. */
function openTransaction(knex: Knex, connection: PoolConnection) {
  const changes: Change[] = []
  let hasEnded = false
  /** After the end, the connection belongs to another transaction, or executes in autocommit mode. */
  function assertOpen(): void {
    if (hasEnded) throw new Error('the transaction is already complete')
  }
  const sendOpen: Send = async (sql, values) => {
    assertOpen()
    return send(knex, connection, sql, values)
  }
  const trx: Transaction = {
    execute: async (sql, values) => modifiedOf(await sendOpen(sql, values)),
    record(change) {
      assertOpen()
      changes.push(change)
    },
    changes,
    ...createStatements(knex, sendOpen),
  }
  async function end(sql: 'COMMIT' | 'ROLLBACK'): Promise<void> {
    hasEnded = true
    await send(knex, connection, sql)
  }
  return { trx, end }
}

/**
 * Runs `act` in a transaction.
 * @param isolation the isolation level, instead of READ COMMITTED. REPEATABLE READ: all reads are of one consistent snapshot.
 *   READ UNCOMMITTED: reads return what other transactions have not committed yet.
 * @throws the error of `act`, otherwise the error of BEGIN or COMMIT; ApiError `unavailable` if the outcome is unknown
 */
export async function transact<T>(
  knex: Knex,
  act: (trx: Transaction) => Promise<T>,
  isolation?: 'REPEATABLE READ' | 'READ UNCOMMITTED',
): Promise<T> {
  const { result, changes, commitError } = await withConnection(knex, async connection => {
    if (isolation !== undefined) await send(knex, connection, `SET TRANSACTION ISOLATION LEVEL ${isolation}`)
    await send(knex, connection, 'BEGIN')
    const { trx, end } = openTransaction(knex, connection)
    const { changes } = trx
    let result: T
    try {
      result = await act(trx)
    } catch (error) {
      await end('ROLLBACK').catch(() => {})
      throw error
    }
    const commitError: unknown = await end('COMMIT').catch((error: unknown) => error)
    return { result, changes, commitError }
  })
  if (commitError !== undefined) await checkStored(knex, changes, commitError)
  return result
}
