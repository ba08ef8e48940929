// The search for records by the beginnings of their text fields, whatever the case and accents.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'

/** The generated column that has the sort key of a field in the collation of the search. */
export const searchColumn = (field: string): string => `${field}_search`

/**
 * Returns SQL for the sort key of a text in the collation that ignores case and accents, whose name differs between MariaDB
 * and MySQL: each of them executes one of the comments. A sort key begins with that of each beginning of the text.
 */
export const weightsSql = (text: string): string =>
  `LEFT(WEIGHT_STRING(${text} COLLATE /*M! utf8mb4_uca1400_nopad_ai_ci */ /*!80001 utf8mb4_0900_ai_ci */), 1020)`

const begins =
  (column: string, run: string): Knex.QueryCallback =>
  text =>
    text
      .whereRaw(`?? >= ${weightsSql('?')}`, [column, run])
      // No sort key has a weight of FFFF.
      .whereRaw(`?? < CONCAT(${weightsSql('?')}, X'FFFF')`, [column, run])

/** Selects the records that match `words`: they can be cut into runs, each of which begins one of the columns. */
const beginsWithRuns =
  (columns: readonly string[], words: readonly string[]): Knex.QueryCallback =>
  either => {
    for (const [at] of words.entries()) {
      const run = words.slice(0, at + 1).join(' ')
      const rest = words.slice(at + 1)
      either.orWhere(runs => {
        runs.where(column => {
          for (const name of columns) column.orWhere(begins(name, run))
        })
        if (rest.length > 0) runs.where(beginsWithRuns(columns, rest))
      })
    }
  }

/**
 * Returns a query for the ids of the records that match the words of a search. Every first run begins with the first word, so
 * that each of the combined queries reads a range of one index, which has all columns of the search.
 */
export function foundIds(on: Knex, resource: Resource, words: readonly string[]): Knex.QueryBuilder {
  const columns = Object.keys(resource.fields).map(searchColumn)
  const queries = columns.map(column => {
    const found = on(resource.plural)
      .select('id')
      .where(begins(column, words[0] ?? ''))
    return words.length === 1 ? found : found.where(beginsWithRuns(columns, words))
  })
  return on.union(queries)
}
