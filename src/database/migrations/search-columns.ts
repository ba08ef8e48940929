// The columns by which records are searched, and their indexes.
import type { Knex } from 'knex'
import { searchColumn, weightsSql } from '../reading/search.ts'
import { indexColumns } from './index-columns.ts'

/**
 * Adds the search columns of `fields`, and for each of them an index that begins with it and has them all. An index that
 * lacks a column is replaced in one statement, so that a search always has one. The database computes the columns, so earlier
 * versions of the service keep them correct. MariaDB stores the columns, and copies the table for that, while writes wait, and on
 * Galera reads too: decisions/exact-comparison.md says why they are not virtual. It can be repeated.
 * @param fields all fields of the resource
 */
export async function addSearch(knex: Knex, table: string, fields: readonly string[]): Promise<void> {
  const missing: string[] = []
  for (const field of fields)
    if (!(await knex.schema.hasColumn(table, searchColumn(field)))) missing.push(field)
  const generated = `ADD COLUMN ?? VARBINARY(1020) GENERATED ALWAYS AS (${weightsSql('??')}) /*M! STORED */ /*!80001 VIRTUAL */`
  if (missing.length > 0)
    await knex.raw(
      `ALTER TABLE ?? ${missing.map(() => generated).join(', ')}, ALGORITHM = /*M! COPY */ /*!80001 INSTANT */`,
      [table, ...missing.flatMap(field => [searchColumn(field), field])],
    )
  const columns = fields.map(searchColumn)
  for (const first of columns) {
    const index = `${table}_${first}`
    const present = await indexColumns(knex, table, index)
    if (columns.every(column => present.includes(column))) continue
    const drop = present.length === 0 ? '' : `DROP KEY \`${index}\`, `
    const indexed = [first, ...columns.filter(column => column !== first)].map(column => `\`${column}\``)
    await knex.raw(
      `ALTER TABLE \`${table}\` ${drop}ADD KEY \`${index}\` (${indexed.join(', ')}), ALGORITHM = INPLACE, LOCK = NONE`,
    )
  }
}
