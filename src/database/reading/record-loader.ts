// Loads single records, optionally with their includes. The loads of a few turns of the event loop share their queries.
import type { Row } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import type { Database } from '../database.ts'
import type { Statements } from '../transaction.ts'
import type { Included, Includes } from './includes.ts'
import type { Records } from './records.ts'

const limits = { concurrency: 2, maxSize: 1000 }
// Fewer, because each of these records can have as much text as all rows of a batch.
const completeLimits = { ...limits, maxSize: 100 }

/** Returns the record and its included records, both at the same version. */
export type CompleteLoader = (id: number) => Promise<Included | undefined>

export const createRecordLoader = (records: Records): ((id: number) => Promise<Row | undefined>) =>
  createBatcher(async ids => new Map((await records.read(ids)).map(row => [row.id, row])), limits)

export function createCompleteLoader(
  database: Database,
  records: Records,
  includes: Includes,
): CompleteLoader {
  /** Adds records to `complete`. @returns the ids of those that were changed between the two reads */
  async function collect(complete: Map<number, Included>, ids: readonly number[], on?: Statements) {
    const rows = await records.read(ids, on)
    const included = await includes(rows, undefined, on)
    const changed: number[] = []
    for (const [index, row] of rows.entries()) {
      const one = included[index]
      if (one === undefined) changed.push(row.id)
      else complete.set(row.id, one)
    }
    return changed
  }

  return createBatcher(async (ids: readonly number[]) => {
    const complete = new Map<number, Included>()
    const changed = await collect(complete, ids)
    // A snapshot reads these again, so that no further change comes between the two reads. It costs more.
    if (changed.length > 0) await database.snapshot(trx => collect(complete, changed, trx))
    return complete
  }, completeLimits)
}
