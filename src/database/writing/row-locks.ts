// Locks rows before a write. Only transactions of the lock queue wait for rows that another session has locked,
// for example an operator's open transaction, so that it delays only requests for its own rows.
import type { Resource } from '../../model/resource.ts'
import { type Row, readRow, type Values } from '../../model/row.ts'
import { LockedError, rowKey } from '../lock-queue.ts'
import type { Transaction } from '../transaction.ts'

interface LockedRows {
  /** The rows that this transaction has locked, by id. Ids that do not exist are missing. */
  readonly rows: Map<number, Row>
  /** The ids of rows that another session has locked; none in the lock queue. */
  readonly skippedIds: ReadonlySet<number>
}

/** `share`: the rows cannot be changed or deleted, but other transactions can share the lock. */
type LockMode = 'update' | 'share'

/** Names the entry of a record in the unique index. */
export const nameKey = ({ plural, unique }: Resource, values: Values | Row): string =>
  `${plural} ${JSON.stringify(unique.map(field => values[field] ?? null))}`

// MariaDB executes the first comment, MySQL the second one.
const lockClauses = { update: 'FOR UPDATE', share: '/*M! LOCK IN SHARE MODE */ /*!80001 FOR SHARE */' }
const skipClauses = {
  update: 'FOR UPDATE SKIP LOCKED',
  share: '/*M! LOCK IN SHARE MODE SKIP LOCKED */ /*!80001 FOR SHARE SKIP LOCKED */',
}

export function createRowLocks({ plural: table, fields }: Resource) {
  // The order of ids prevents deadlocks between two transactions. The index is forced, because the full scan
  // of a small table would lock all of its rows.
  const lockSql = `SELECT id, version, ${Object.keys(fields).join(', ')}
    FROM \`${table}\` FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY id`
  const readSql = `SELECT id FROM \`${table}\` WHERE id IN (?)`

  async function lockFree(
    trx: Transaction,
    ids: readonly number[],
    mode: LockMode = 'update',
  ): Promise<LockedRows> {
    const distinct = [...new Set(ids)]
    if (distinct.length === 0) return { rows: new Map(), skippedIds: new Set() }
    const clause = (trx.mayWait ? lockClauses : skipClauses)[mode]
    const found = await trx.query(`${lockSql} ${clause}`, [distinct])
    const rows = new Map(found.map(readRow).map(row => [row.id, row]))
    const missing = distinct.filter(id => !rows.has(id))
    if (trx.mayWait || missing.length === 0) return { rows, skippedIds: new Set() }
    // A row that exists but was not returned is locked by another session.
    const skipped = await trx.query(readSql, [missing])
    return { rows, skippedIds: new Set(skipped.map(({ id }) => Number(id))) }
  }

  /** Locks all rows that exist. @throws LockedError if another session has locked one of them */
  async function lockAll(
    trx: Transaction,
    ids: readonly number[],
    mode?: LockMode,
  ): Promise<Map<number, Row>> {
    const { rows, skippedIds } = await lockFree(trx, ids, mode)
    for (const id of skippedIds) throw new LockedError(rowKey(table, id))
    return rows
  }

  return { lockFree, lockAll }
}
