// The search for records by the beginnings of their text fields, whatever the case and accents.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'

/** The generated column that has the text of a field in the collation of the search. */
export const searchColumn = (field: string): string => `${field}_search`

/**
 * The code point that sorts after all others. In the collation of the search, a text begins with `run` if it sorts from `run`
 * up to `run` followed by this code point. LIKE compares single characters, so that `strass` would not begin `Straße`.
 */
const LAST_CODE_POINT = '\u{10ffff}'

const begins =
  (column: string, run: string): Knex.QueryCallback =>
  text =>
    text.where(column, '>=', run).where(column, '<', run + LAST_CODE_POINT)

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
