// Looking single records up, alone or with what they include: whoever asks in one turn of the event loop shares the reads.
import type { Row } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import type { Includes } from './includes.ts'
import type { Records } from './records.ts'

// A second read may begin while one is under way, where it is no smaller: more of them would only cost more.
const limits = { concurrency: 2, maxSize: 1000, eager: false }

interface Complete {
  readonly row: Row
  /** What it embeds, as JSON text of an array. */
  readonly included: string
}

export interface RecordLoader {
  find(id: number): Promise<Row | undefined>
  /** The record and what it includes, of one moment. */
  findComplete(id: number): Promise<Complete | undefined>
}

/** @param includes of the resource's relation; without one nothing is ever complete */
export function createRecordLoader(records: Records, includes?: Includes): RecordLoader {
  async function read(ids: readonly number[]): Promise<ReadonlyMap<number, Row>> {
    return new Map((await records.read(ids)).map(row => [row.id, row]))
  }

  async function readComplete(ids: readonly number[]): Promise<ReadonlyMap<number, Complete>> {
    const rows = await records.read(ids)
    const included = (await includes?.of(rows)) ?? []
    const complete = new Map<number, Complete>()
    const changed: number[] = []
    for (const [at, row] of rows.entries()) {
      const text = included[at]
      if (text === undefined) changed.push(row.id)
      else complete.set(row.id, { row, included: text })
    }
    if (changed.length === 0) return complete
    // Somebody wrote to these in between.
    return new Map([...complete, ...(await readComplete(changed))])
  }

  const gathered = <V>(readMany: (ids: readonly number[]) => Promise<ReadonlyMap<number, V>>) =>
    createBatcher(async (ids: readonly number[]) => {
      const found = await readMany([...new Set(ids)])
      return ids.map(id => found.get(id))
    }, limits)

  return { find: gathered(read), findComplete: gathered(readComplete) }
}
