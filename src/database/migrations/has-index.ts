// Whether a table has an index.
import type { Knex } from 'knex'

export async function hasIndex(knex: Knex, table: string, name: string): Promise<boolean> {
  const [rows] = await knex.raw('SHOW INDEX FROM ?? WHERE Key_name = ?', [table, name])
  return rows.length > 0
}
