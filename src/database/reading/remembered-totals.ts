// Totals that took long to count. They are remembered as long as they are exact: until a record changes.
import { allAppendEventsSql } from '../counting/earlier-versions.ts'
import type { Columns } from '../results.ts'
import type { Selection } from './page-query.ts'

/** A total that is counted faster is counted each time. */
const MIN_MS = 10
/** Changes without events, such as those by SQL, are counted after this time. */
const MAX_AGE_MS = 10_000
const MAX_TOTALS = 1000

/**
 * SQL for the position of the change feed while each committed change has its number, else NULL. Snapshots with the same position
 * have the same records: each transaction that changes a record also appends an event, unless an earlier version of the service or a
 * process without the change feed can run.
 */
export const positionSql = `(SELECT IF(is_complete = 1 AND ${allAppendEventsSql} AND NOT EXISTS (SELECT 1 FROM change_queue), last_id, NULL)
  FROM change_head WHERE id = 1)`

/**
 * Whether the total of a selection can be remembered: one by fields of the records themselves. Memberships also end without an
 * event, with their group.
 */
export const canBeRemembered = ({ filters, search }: Selection): boolean =>
  filters.length + search.length > 0 && filters.every(({ relation }) => relation === undefined)

/**
 * @param recordsEvents whether this process appends events to the change feed; without them, no total is remembered
 * @param minMs totals whose page takes this time are remembered
 */
export function createRememberedTotals(recordsEvents: boolean, minMs = MIN_MS) {
  const totals = new Map<string, { total: number; position: unknown; endMs: number }>()

  function remember(key: string, { total, position }: Columns): void {
    if (total === null || position === null) return
    totals.set(key, { total: Number(total), position, endMs: performance.now() + MAX_AGE_MS })
    const [oldest] = totals.keys()
    if (totals.size > MAX_TOTALS && oldest !== undefined) totals.delete(oldest)
  }

  /**
   * Reads a page with the remembered total of its selection, or with one that the database counts.
   * @param read returns the rows of the page with their `total` and `position`; it counts the total if it gets none
   */
  return async (selection: Selection, read: (total?: number) => Promise<Columns[]>): Promise<Columns[]> => {
    if (!recordsEvents || !canBeRemembered(selection)) return read()
    const key = JSON.stringify([selection.filters, selection.search])
    const known = totals.get(key)
    if (known !== undefined && performance.now() < known.endMs) {
      const rows = await read(known.total)
      if (rows[0]?.position === known.position) return rows
    }
    totals.delete(key)
    const startedMs = performance.now()
    const rows = await read()
    const [first] = rows
    if (first !== undefined && performance.now() - startedMs >= minMs) remember(key, first)
    return rows
  }
}
