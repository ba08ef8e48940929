// SQL for statements that list rows as a derived table. A join that starts with the list reads a table by its index. With IN,
// the server may scan a small table, and then waits for the uncommitted rows of other transactions.
import { assertRowCount } from './driver-errors.ts'
import type { Transaction } from './transaction.ts'

/** The most rows of several columns in one list; a list of ids may be longer. A server needs memory and stack for each value. */
const MAX_LISTED = 200

/** Divides rows into parts that one statement lists. */
export function partsOf<T>(rows: readonly T[]): T[][] {
  const parts: T[][] = []
  for (let at = 0; at < rows.length; at += MAX_LISTED) parts.push(rows.slice(at, at + MAX_LISTED))
  return parts
}

/** Returns a derived table without a name, with parameters for the values of `rowCount` rows. */
export function listedRows(columns: readonly string[], rowCount: number): string {
  const first = `SELECT ${columns.map(column => `? AS ${column}`).join(', ')}`
  const others = ` UNION ALL SELECT ${columns.map(() => '?').join(', ')}`.repeat(rowCount - 1)
  return `(${first}${others})`
}

/** Returns SQL that deletes rows by the values of columns. @param columns names of columns of the list and of the table */
export function deleteListedSql(table: string, columns: readonly string[], rowCount: number): string {
  const same = columns.map(column => `${table}.${column} = listed.${column}`).join(' AND ')
  return `DELETE ${table} FROM ${listedRows(columns, rowCount)} AS listed STRAIGHT_JOIN ${table} ON ${same}`
}

/** Deletes the rows with these ids. @throws CodedError as `assertRowCount` if one of them does not exist */
export async function deleteByIds(trx: Transaction, table: string, ids: readonly number[]): Promise<void> {
  const deleted = await trx.execute(deleteListedSql(table, ['id'], ids.length), ids)
  assertRowCount(table, deleted, ids.length)
}
