// The search for records by the beginnings of their text fields, whatever the case and accents.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'

/** The generated column that has the sort key of a field in the collation of the search. */
export const searchColumn = (field: string): string => `${field}_search`

/**
 * Returns SQL for the sort key of a text in the collation that ignores case and accents, whose name differs between MariaDB
 * and MySQL: each of them executes one of the comments. A sort key begins with that of each beginning of the text. On MariaDB, a
 * beginning can end in a character that is compared together with the next one: in a Thai vowel, which comes before its
 * consonant, or in an и before a combining breve. A key is cut at 1,020 bytes, so that an index has room for three: on MySQL,
 * texts with the same first 170 Hangul syllables have the same key.
 */
export const weightsSql = (text: string): string =>
  `LEFT(WEIGHT_STRING(${text} COLLATE /*M! utf8mb4_uca1400_nopad_ai_ci */ /*!80001 utf8mb4_0900_ai_ci */), 1020)`

const begins =
  (column: string, run: string): Knex.QueryCallback =>
  text =>
    text
      .whereRaw(`?? >= ${weightsSql('?')}`, [column, run])
      // The weights of no character begin with FFFF.
      .whereRaw(`?? < CONCAT(${weightsSql('?')}, X'FFFF')`, [column, run])
      // A run of ignored characters only, such as a soft hyphen, is the beginning of no text, not of every one.
      .whereRaw(`${weightsSql('?')} <> ''`, [run])

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

/** Selects the records whose column does not begin with `run`, or has no text. */
const beginsOtherwise =
  (column: string, run: string): Knex.QueryCallback =>
  text =>
    text
      .whereNull(column)
      .orWhereRaw(`?? < ${weightsSql('?')}`, [column, run])
      .orWhereRaw(`?? >= CONCAT(${weightsSql('?')}, X'FFFF')`, [column, run])

/** No field contains a control character, and the collation ignores it. */
const control = /\p{Cc}/u

/**
 * Returns queries that together find the records that match the words of a search, each record once. Every first run begins with
 * the first word, so that each of them reads a range of one index, which has all columns of the search.
 */
export function searchQueries(
  knex: Knex,
  { plural, fields }: Resource,
  words: readonly string[],
): Knex.QueryBuilder[] {
  const [first = ''] = words
  const columns = Object.keys(fields).map(searchColumn)
  return columns.map((column, at) => {
    const found = knex(plural).where(begins(column, first))
    if (words.some(word => control.test(word))) found.whereRaw('FALSE')
    for (const earlier of columns.slice(0, at)) found.where(beginsOtherwise(earlier, first))
    return words.length === 1 ? found : found.where(beginsWithRuns(columns, words))
  })
}
