// Loads single records, optionally with their includes. The loads of one event loop turn share their queries.
import type { Row } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import type { Includes } from './includes.ts'
import type { Records } from './records.ts'

// Not eager: a second batch starts only if it is as large as the one in progress. More batches cost more.
const limits = { concurrency: 2, maxSize: 1000, eager: false }

interface Complete {
  readonly row: Row
  /** The included records, as the JSON text of an array. */
  readonly included: string
}

export interface RecordLoader {
  find(id: number): Promise<Row | undefined>
  /** Returns the record and its included records, both at the same version. */
  findComplete(id: number): Promise<Complete | undefined>
}

/** @param includes the includes of the resource's relation; required for `findComplete` */
export function createRecordLoader(records: Records, includes?: Includes): RecordLoader {
  async function read(ids: readonly number[]): Promise<ReadonlyMap<number, Row>> {
    return new Map((await records.read(ids)).map(row => [row.id, row]))
  }

  async function readComplete(ids: readonly number[]): Promise<ReadonlyMap<number, Complete>> {
    const rows = await records.read(ids)
    const included = (await includes?.of(rows)) ?? []
    const complete = new Map<number, Complete>()
    const changed: number[] = []
    for (const [index, row] of rows.entries()) {
      const text = included[index]
      if (text === undefined) changed.push(row.id)
      else complete.set(row.id, { row, included: text })
    }
    if (changed.length === 0) return complete
    // These rows were changed between the two reads.
    return new Map([...complete, ...(await readComplete(changed))])
  }

  const batched = <V>(readMany: (ids: readonly number[]) => Promise<ReadonlyMap<number, V>>) =>
    createBatcher(async (ids: readonly number[]) => {
      const found = await readMany([...new Set(ids)])
      return ids.map(id => found.get(id))
    }, limits)

  return { find: batched(read), findComplete: batched(readComplete) }
}
