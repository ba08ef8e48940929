// The columns of an index of a table.
import type { Knex } from 'knex'
import { rawRows } from '../results.ts'

/** Returns the names of the columns of an index in their order; none if the table does not have the index. */
export async function indexColumns(knex: Knex, table: string, name: string): Promise<string[]> {
  const rows = await rawRows(knex, 'SHOW INDEX FROM ?? WHERE Key_name = ?', [table, name])
  return rows.map(({ Column_name }) => String(Column_name))
}
