// The columns by which records are searched, and their indexes.
import type { Knex } from 'knex'
import { searchColumn, weightsSql } from '../reading/search.ts'
import { hasIndex } from './has-index.ts'

/**
 * Adds the search columns of `fields`, and for each of them an index that begins with it and has them all. The service can read
 * and write the table meanwhile. The database computes the columns, so earlier versions of the service keep them correct. It
 * can be repeated.
 */
export async function addSearch(knex: Knex, table: string, fields: readonly string[]): Promise<void> {
  for (const field of fields) {
    const column = searchColumn(field)
    if (!(await knex.schema.hasColumn(table, column)))
      await knex.raw(
        `ALTER TABLE ?? ADD COLUMN ?? VARBINARY(1020) GENERATED ALWAYS AS (${weightsSql('??')}) VIRTUAL,
         ALGORITHM = INSTANT`,
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
