// Whether a table has an index.
import type { Knex } from 'knex'
import { rawRows } from '../results.ts'

export async function hasIndex(knex: Knex, table: string, name: string): Promise<boolean> {
  return (await rawRows(knex, 'SHOW INDEX FROM ?? WHERE Key_name = ?', [table, name])).length > 0
}
