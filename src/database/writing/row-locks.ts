// Locks rows before an update. Rows that another session keeps locked, for example an operator's open
// transaction, are skipped, so that one long transaction delays only requests for its own rows.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { type Row, readRow } from '../../model/row.ts'
import type { Database } from '../database.ts'
import { isStatementTimeout } from '../driver-errors.ts'

/** Longer than the service's own transactions lock a row, even if several of them queue for it. */
const TIMEOUT_MS = 250

/**
 * SELECT with a time limit. MariaDB and MySQL each apply their own limit and ignore the other one as a
 * comment. Rows that were locked before the timeout stay locked.
 */
const selectWithTimeout = `/*M! SET STATEMENT max_statement_time = ${TIMEOUT_MS / 1000} FOR */
  SELECT /*+ MAX_EXECUTION_TIME(${TIMEOUT_MS}) */`

export interface LockedRows {
  /** The rows that this transaction has locked, by id. Ids that do not exist are missing. */
  readonly rows: Map<number, Row>
  /** The ids of rows that another session has locked. */
  readonly skippedIds: ReadonlySet<number>
}

export function createRowLocks(
  database: Database,
  { plural: table, fields }: Resource,
): (trx: Knex.Transaction, ids: readonly number[]) => Promise<LockedRows> {
  // The order of ids prevents deadlocks between two transactions. The index is forced, because the full scan
  // of a small table would wait for all of its rows.
  const lockSql = `id, version, ${Object.keys(fields).join(', ')}
    FROM \`${table}\` FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY id FOR UPDATE`
  const readSql = `SELECT id FROM \`${table}\` WHERE id IN (?)`

  return async (trx, ids) => {
    const query = async (sql: string) => {
      const found = (await database.query(sql, [ids], trx)).map(readRow)
      return new Map(found.map(row => [row.id, row]))
    }
    try {
      return { rows: await query(`${selectWithTimeout} ${lockSql}`), skippedIds: new Set() }
    } catch (error) {
      if (!isStatementTimeout(error)) throw error
    }
    const rows = await query(`SELECT ${lockSql} SKIP LOCKED`)
    // A row that exists but was not returned is locked by another session.
    const existing = await database.query(readSql, [ids], trx)
    return { rows, skippedIds: new Set(existing.map(({ id }) => Number(id)).filter(id => !rows.has(id))) }
  }
}
