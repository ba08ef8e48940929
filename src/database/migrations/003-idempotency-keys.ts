// Creates the table of idempotency keys and their saved responses.
import type { Knex } from 'knex'

export async function up(knex: Knex): Promise<void> {
  // The columns of the response are NULL only before the inserting transaction commits.
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS idempotency_keys (
      idempotency_key VARCHAR(255) NOT NULL PRIMARY KEY,
      fingerprint CHAR(43) NOT NULL,
      created_at DATETIME NOT NULL,
      status SMALLINT UNSIGNED NULL,
      location VARCHAR(255) NULL,
      etag VARCHAR(64) NULL,
      body MEDIUMTEXT CHARACTER SET utf8mb4 NULL,
      KEY idempotency_keys_created_at (created_at)
    ) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin`)
}
