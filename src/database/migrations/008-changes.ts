// Creates the change feed: the queue of changes without a number, the numbered changes, and the positions between which
// they can be read.
import type { Knex } from 'knex'

export async function up(knex: Knex): Promise<void> {
  // A row has the events of one transaction, or a part of them. A caller's name can be any text.
  const columns = `
    at DATETIME(3) NOT NULL,
    amount INT UNSIGNED NOT NULL,
    events MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL`
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS change_queue (
      id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, ${columns}
    ) ENGINE = InnoDB`)
  // The events of a row have the ids up to last_id.
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS changes (
      last_id BIGINT UNSIGNED NOT NULL PRIMARY KEY, ${columns}
    ) ENGINE = InnoDB`)
  // A table of one row. Positions from floor to last_id are valid.
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS change_head (
      id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
      last_id BIGINT UNSIGNED NOT NULL,
      floor BIGINT UNSIGNED NOT NULL,
      is_complete BOOLEAN NOT NULL
    ) ENGINE = InnoDB`)
  await knex.raw('INSERT IGNORE INTO change_head (id, last_id, floor, is_complete) VALUES (1, 0, 0, TRUE)')
}
