// Adds the columns and indexes by which records are searched.
import type { Knex } from 'knex'
import { addSearch } from './search-columns.ts'

export async function up(knex: Knex): Promise<void> {
  await addSearch(knex, 'users', ['first_name', 'last_name'])
  await addSearch(knex, 'groups', ['name'])
}
