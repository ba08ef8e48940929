// The columns by which records are searched: the text of a field in a collation that ignores case and accents.
import type { Knex } from 'knex'
import { searchColumn } from '../reading/search.ts'
import { isMariadb } from './collation.ts'
import { hasIndex } from './has-index.ts'

/** Returns the NO PAD collation that ignores case and accents, whose name differs between MySQL and MariaDB. */
const searchCollation = async (knex: Knex): Promise<string> =>
  (await isMariadb(knex)) ? 'utf8mb4_uca1400_nopad_ai_ci' : 'utf8mb4_0900_ai_ci'

/**
 * Adds the search columns of `fields`, and for each of them an index that begins with it and has them all. The service can read
 * and write the table meanwhile. The database computes the columns, so earlier versions of the service keep them correct. It
 * can be repeated.
 */
export async function addSearch(knex: Knex, table: string, fields: readonly string[]): Promise<void> {
  const collation = await searchCollation(knex)
  for (const field of fields) {
    const column = searchColumn(field)
    if (!(await knex.schema.hasColumn(table, column)))
      await knex.raw(
        `ALTER TABLE ?? ADD COLUMN ?? VARCHAR(255) CHARACTER SET utf8mb4 COLLATE ${collation}
         GENERATED ALWAYS AS (??) VIRTUAL, ALGORITHM = INSTANT`,
        [table, column, field],
      )
  }
  const columns = fields.map(searchColumn)
  for (const first of columns) {
    const index = `${table}_${first}`
    const indexed = [first, ...columns.filter(column => column !== first)]
    if (!(await hasIndex(knex, table, index)))
      await knex.raw(
        `ALTER TABLE ?? ADD KEY ?? (${indexed.map(() => '??').join(', ')}), ALGORITHM = INPLACE, LOCK = NONE`,
        [table, index, ...indexed],
      )
  }
}
