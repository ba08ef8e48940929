// Creates users, groups, memberships, and the generation token of the cached includes.
import type { Knex } from 'knex'
import { newVersion } from '../version.ts'
import { exactCollation } from './collation.ts'

// MySQL commits DDL implicitly, so each step must be repeatable after a crash.
export async function up(knex: Knex): Promise<void> {
  const options = `ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE ${exactCollation}`
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS users (
      id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
      first_name VARCHAR(255) NULL,
      last_name VARCHAR(255) NULL,
      version BIGINT UNSIGNED NOT NULL,
      UNIQUE KEY users_first_name_last_name (first_name, last_name),
      KEY users_last_name (last_name)
    ) ${options}`)
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS \`groups\` (
      id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
      name VARCHAR(255) NOT NULL,
      version BIGINT UNSIGNED NOT NULL,
      UNIQUE KEY groups_name (name)
    ) ${options}`)
  // Older databases have foreign keys with other names and ON DELETE CASCADE, see migration 006.
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS memberships (
      user_id BIGINT UNSIGNED NOT NULL,
      group_id BIGINT UNSIGNED NOT NULL,
      PRIMARY KEY (user_id, group_id),
      KEY memberships_group_id_user_id (group_id, user_id),
      CONSTRAINT memberships_user_id FOREIGN KEY (user_id) REFERENCES users (id),
      CONSTRAINT memberships_group_id FOREIGN KEY (group_id) REFERENCES \`groups\` (id)
    ) ${options}`)
  // A table of one row. Its token changes when a group is renamed or deleted.
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS group_generation (
      id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
      token BIGINT UNSIGNED NOT NULL
    ) ${options}`)
  await knex.raw('INSERT IGNORE INTO group_generation (id, token) VALUES (1, ?)', [newVersion()])
}
