// Moves the recorded changes of counts into `counts`, so that reading a total stays cheap.
import { deleteByIds, deleteListedSql, partsOf } from '../listed-rows.ts'
import type { RunTransaction, Transaction } from '../transaction.ts'
import { asRows, type CountChange, merge } from './counts.ts'

/** Average number of recorded rows per compaction. It is small, so reading the remaining rows is cheap. */
const COMPACT_EVERY_ROWS = 64
const MAX_COMPACT_ROWS = 500

const addToCountsSql = `INSERT INTO counts (kind, slot, block, amount) VALUES ?
  ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount)`

// Rows that another process is compacting are locked and therefore skipped.
const takeSql = `SELECT id, kind, slot, block, amount FROM count_changes
  ORDER BY id LIMIT ${MAX_COMPACT_ROWS} FOR UPDATE SKIP LOCKED`

/**
 * Deletes those of the changed counts that are 0 now. Ids are not used again, so each slot and block whose rows are all deleted
 * would keep a count forever.
 */
async function deleteZeros(trx: Transaction, changes: readonly CountChange[]): Promise<void> {
  for (const kind of new Set(changes.map(change => change.kind)))
    for (const part of partsOf(changes.filter(change => change.kind === kind)))
      await trx.execute(
        `${deleteListedSql('counts', ['slot', 'block'], part.length)} WHERE kind = ? AND amount = 0`,
        [...part.flatMap(({ slot, block }) => [slot, block]), kind],
      )
}

/** @returns the number of rows that were moved */
async function compactRows(trx: Transaction): Promise<number> {
  const rows = (await trx.query(takeSql, [])).map(({ id, kind, slot, block, amount }) => ({
    id: Number(id),
    kind: String(kind),
    slot: Number(slot),
    block: Number(block),
    amount: Number(amount),
  }))
  if (rows.length === 0) return 0
  const changes = merge(rows)
  if (changes.length > 0) await trx.execute(addToCountsSql, [asRows(changes)])
  await deleteZeros(trx, changes)
  // A database can ignore SKIP LOCKED. Another process may then have added the same rows, and this fails.
  await deleteByIds(
    trx,
    'count_changes',
    rows.map(({ id }) => id),
  )
  return rows.length
}

export function createCompaction(transaction: RunTransaction) {
  let compacting = false

  /** Moves the recorded changes. Several processes can do this at the same time. */
  async function compact(): Promise<void> {
    if (compacting) return
    compacting = true
    try {
      while ((await transaction(compactRows)) === MAX_COMPACT_ROWS);
    } finally {
      compacting = false
    }
  }

  return {
    compact,
    /** Starts a compaction after some of the transactions, in proportion to the rows that they have inserted. */
    after(countRows: number): void {
      // A failed compaction is ignored: the next one moves the same rows, and `database` logs outages.
      if (Math.random() < countRows / COMPACT_EVERY_ROWS) compact().catch(() => {})
    },
  }
}
