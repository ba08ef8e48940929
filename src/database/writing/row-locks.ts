// Locks rows before a write, without waiting for other sessions, or waits for the lock of one row.
import type { Resource } from '../../model/resource.ts'
import { type Row, readRow } from '../../model/row.ts'
import type { Transaction } from '../transaction.ts'

interface LockedRows {
  /** The rows that this transaction has locked, by id. Ids that do not exist are missing. */
  readonly rows: Map<number, Row>
  /** The ids of rows that another session has locked. */
  readonly skippedIds: ReadonlySet<number>
}

/** Names a row, for the lane. */
export const rowKey = ({ plural }: Resource, id: number): string => `${plural} ${id}`

/** `share`: other transactions can share the lock. */
export type LockMode = 'update' | 'share'

// MariaDB executes the first comment, MySQL the second one.
export const skipLocked: Record<LockMode, string> = {
  update: 'FOR UPDATE SKIP LOCKED',
  share: '/*M! LOCK IN SHARE MODE SKIP LOCKED */ /*!80001 FOR SHARE SKIP LOCKED */',
}

/**
 * Returns a function that locks those of the rows that are free. With `all`, it locks all of them, or fails at the first one that
 * is not free, with an error that `isLocked`. Two transactions that need the same rows do not each take some of them then: the
 * one that is ahead gets all.
 */
export function createRowLocks({ plural: table, fields }: Resource, mode: LockMode) {
  // The order of ids prevents deadlocks between two transactions. The index is forced, because the full scan
  // of a small table would lock all of its rows.
  const lockSql = `SELECT id, version, ${Object.keys(fields).join(', ')}
    FROM \`${table}\` FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY id ${skipLocked[mode]}`
  const lockAllSql = lockSql.replaceAll('SKIP LOCKED', 'NOWAIT')
  const readSql = `SELECT id FROM \`${table}\` WHERE id IN (?)`

  return async (trx: Transaction, ids: Iterable<number>, all = false): Promise<LockedRows> => {
    const distinct = [...new Set(ids)]
    if (distinct.length === 0) return { rows: new Map(), skippedIds: new Set() }
    const found = await trx.query(all ? lockAllSql : lockSql, [distinct])
    const rows = new Map(found.map(readRow).map(row => [row.id, row]))
    const missing = distinct.filter(id => !rows.has(id))
    if (all || missing.length === 0) return { rows, skippedIds: new Set() }
    // A row that exists but was not returned is locked by another session.
    const skipped = await trx.query(readSql, [missing])
    return { rows, skippedIds: new Set(skipped.map(({ id }) => Number(id))) }
  }
}

/**
 * Returns a function that waits for the lock of the row with the lowest id of an item, for the `innodb_lock_wait_timeout` of the session.
 * Transactions that need the same rows take turns there: all of them lock this row first. It does not wait for the others: the
 * first ones would stay locked meanwhile.
 */
export function createAwaitLock<I>({ plural: table }: Resource, idsOf: (item: I) => readonly number[]) {
  const awaitSql = `SELECT id FROM \`${table}\` WHERE id = ? FOR UPDATE`

  return async (trx: Transaction, item: I): Promise<void> => {
    const ids = idsOf(item)
    if (ids.length > 0) await trx.query(awaitSql, [Math.min(...ids)])
  }
}
