// Looking single records up, alone or with what they include: whoever asks in one turn of the event loop shares the reads.
import type { Row } from '../resources/definition.ts'
import type { Includes } from './includes.ts'
import { createLoader } from './loader.ts'
import type { Records } from './records.ts'

// A second read may begin while one is under way: more would only be smaller.
const LANES = 2

export interface Complete {
  readonly row: Row
  /** What it embeds, as JSON text of an array. */
  readonly included: string
}

export interface Lookups {
  find(id: number): Promise<Row | undefined>
  /** The record and what it includes, of one moment. */
  findComplete(id: number): Promise<Complete | undefined>
}

/** @param includes of the resource's relation; without one nothing is ever complete */
export function createLookups(records: Records, includes?: Includes): Lookups {
  const rows = createLoader<number, Row>(
    async ids => new Map((await records.read(ids)).map(row => [row.id, row])),
    LANES,
  )

  async function readComplete(ids: readonly number[]): Promise<Map<number, Complete>> {
    const read = await records.read(ids)
    const included = (await includes?.of(read)) ?? []
    const complete = new Map<number, Complete>()
    const changed: number[] = []
    for (const [at, row] of read.entries()) {
      const text = included[at]
      if (text === undefined) changed.push(row.id)
      else complete.set(row.id, { row, included: text })
    }
    if (changed.length === 0) return complete
    // Somebody wrote to these in between.
    return new Map([...complete, ...(await readComplete(changed))])
  }
  const completes = createLoader<number, Complete>(readComplete, LANES)

  return {
    find: async id => (await rows.load([id]))[0],
    findComplete: async id => (await completes.load([id]))[0],
  }
}
