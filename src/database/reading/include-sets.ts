// The includes of the relations that a request names, and the loads of records with these includes.
import type { Row } from '../../model/row.ts'
import type { Database } from '../database.ts'
import type { Included, Includes } from './includes.ts'
import { type CompleteLoader, createCompleteLoader } from './record-loader.ts'
import type { Records } from './records.ts'

export interface IncludeSet {
  /** Its texts are the members of a JSON object, by the names of the relations: `"groups":[…],"roles":[…]`. */
  readonly includes: Includes
  readonly findComplete: CompleteLoader
}

function combine(parts: readonly (readonly [name: string, includes: Includes])[]): Includes {
  return async (rows, onText, on) => {
    const lists = await Promise.all(parts.map(([, includes]) => includes(rows, onText, on)))
    return rows.map((_, index): Included | undefined => {
      let row: Row | undefined
      let text = ''
      for (const [part, [name]] of parts.entries()) {
        const found = lists[part]?.[index]
        // Each relation is read with a statement of its own: a change to a related record in between changes the generation.
        if (found === undefined || (row !== undefined && row.generation !== found.row.generation))
          return undefined
        row = found.row
        text += `${part === 0 ? '' : ','}"${name}":${found.text}`
      }
      return row && { row, text }
    })
  }
}

/**
 * Returns a function for the set of the relations with these names, in the order of the definition. Equal sets are one
 * object, so that the loads of a few turns of the event loop share their queries.
 * @param includes by the names of the relations
 */
export function createIncludeSets(
  database: Database,
  records: Records,
  includes: ReadonlyMap<string, Includes>,
): (names: readonly string[]) => IncludeSet {
  const sets = new Map<string, IncludeSet>()
  return names => {
    const key = names.join()
    const known = sets.get(key)
    if (known !== undefined) return known
    const combined = combine([...includes].filter(([name]) => names.includes(name)))
    const set = { includes: combined, findComplete: createCompleteLoader(database, records, combined) }
    sets.set(key, set)
    return set
  }
}
