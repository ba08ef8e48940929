// Loads single records, optionally with their includes. The loads of a few turns of the event loop share their queries.
import type { Row } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import type { Database } from '../database.ts'
import type { Includes } from './includes.ts'
import type { Records } from './records.ts'

// Not eager: many small batches cost more than a few large ones.
const limits = { concurrency: 2, maxSize: 1000, eager: false }
// Fewer, because each of these records can have as much text as all rows of a batch.
const completeLimits = { ...limits, maxSize: 100 }
/** Under steady changes of the related resource, a further round would find the next change, without end. */
const MAX_ROUNDS = 2

interface Complete {
  readonly row: Row
  /** The included records, as a text of `includes`. */
  readonly included: string
}

export interface RecordLoader {
  find(id: number): Promise<Row | undefined>
  /** Returns the record and its included records, both at the same version. */
  findComplete(id: number): Promise<Complete | undefined>
}

/** @param includes required for `findComplete` */
export function createRecordLoader(database: Database, records: Records, includes?: Includes): RecordLoader {
  async function read(ids: readonly number[]): Promise<ReadonlyMap<number, Row>> {
    return new Map((await records.read(ids)).map(row => [row.id, row]))
  }

  async function readComplete(ids: readonly number[]): Promise<ReadonlyMap<number, Complete>> {
    const complete = new Map<number, Complete>()
    if (includes === undefined) return complete
    let remaining = ids
    for (let round = 1; round <= MAX_ROUNDS && remaining.length > 0; round++) {
      const rows = await records.read(remaining)
      const included = await includes.of(rows)
      // These rows were changed between the two reads.
      const changed: number[] = []
      for (const [index, row] of rows.entries()) {
        const text = included[index]
        if (text === undefined) changed.push(row.id)
        else complete.set(row.id, { row, included: text })
      }
      remaining = changed
    }
    if (remaining.length > 0)
      await database.snapshot(async trx => {
        const rows = await records.read(remaining, trx)
        const included = await includes.within(trx, rows)
        for (const [index, row] of rows.entries())
          complete.set(row.id, { row, included: included[index] ?? '[]' })
      })
    return complete
  }

  const batched = <V>(
    readMany: (ids: readonly number[]) => Promise<ReadonlyMap<number, V>>,
    options: typeof limits,
  ) =>
    createBatcher(async (ids: readonly number[]) => {
      const found = await readMany([...new Set(ids)])
      return ids.map(id => found.get(id))
    }, options)

  return { find: batched(read, limits), findComplete: batched(readComplete, completeLimits) }
}
