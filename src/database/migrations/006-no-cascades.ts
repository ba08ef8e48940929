// Replaces the foreign keys of the memberships by ones without ON DELETE CASCADE, which Group Replication refuses with several
// primaries. The service deletes the memberships itself, as does the version before.
import type { Knex } from 'knex'
import { rawRows } from '../results.ts'

export async function up(knex: Knex): Promise<void> {
  const cascades = await rawRows(
    knex,
    `
    SELECT constraint_name AS name FROM information_schema.referential_constraints
    WHERE constraint_schema = DATABASE() AND table_name = 'memberships' AND delete_rule = 'CASCADE'`,
  )
  if (cascades.length === 0) return
  // The old keys have held until now, so that a check of all rows is needless. Without it, the table is not copied. The
  // transaction keeps the connection, whose session has the setting.
  await knex.transaction(async trx => {
    await trx.raw('SET SESSION foreign_key_checks = 0')
    await trx.raw(`
      ALTER TABLE memberships
        DROP FOREIGN KEY memberships_user,
        DROP FOREIGN KEY memberships_group,
        ADD CONSTRAINT memberships_user_id FOREIGN KEY (user_id) REFERENCES users (id),
        ADD CONSTRAINT memberships_group_id FOREIGN KEY (group_id) REFERENCES \`groups\` (id)`)
    await trx.raw('SET SESSION foreign_key_checks = 1')
  })
}
