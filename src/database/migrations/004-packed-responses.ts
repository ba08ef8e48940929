// Adds the column of compressed responses to the idempotency keys.
import type { Knex } from 'knex'

export async function up(knex: Knex): Promise<void> {
  // The version before ignores the column: its rows have NULL.
  if (!(await knex.schema.hasColumn('idempotency_keys', 'packed')))
    await knex.raw('ALTER TABLE idempotency_keys ADD COLUMN packed MEDIUMBLOB NULL')
}
