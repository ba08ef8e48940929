// Creates a table of one row about the schema itself.
import type { Knex } from 'knex'

export async function up(knex: Knex): Promise<void> {
  // min_code_version is explained at `codeVersion`. Each recount increments `recounts`, so that two recounts conflict,
  // also on different servers of a database cluster.
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS schema_info (
      id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
      min_code_version INT UNSIGNED NOT NULL,
      recounts BIGINT UNSIGNED NOT NULL DEFAULT 0
    ) ENGINE = InnoDB`)
  // Code without migration 002 does not count its writes.
  await knex.raw('INSERT IGNORE INTO schema_info (id, min_code_version) VALUES (1, 2)')
}
