// Creates the counts of users and groups by id range, the counts of members, and an index on first names.
import type { Knex } from 'knex'
import { indexColumns } from './index-columns.ts'

/** Number of ids per slot. Databases have this migration already, so the value must not change. */
const SLOT_IDS = 2048

/** Counts the existing records. */
async function countExisting(trx: Knex.Transaction): Promise<void> {
  await trx('count_changes').delete()
  await trx('counts').delete()
  for (const kind of ['users', 'groups'])
    await trx.raw(
      `INSERT INTO counts (kind, slot, amount)
       SELECT ?, id DIV ${SLOT_IDS} AS slot, COUNT(*) FROM ?? GROUP BY id DIV ${SLOT_IDS}`,
      [kind, kind],
    )
  await trx.raw(
    `INSERT INTO counts (kind, slot, amount)
     SELECT 'groups.members', group_id, COUNT(*) FROM memberships GROUP BY group_id`,
  )
}

// The version before does not update the counts: `demand` in index.ts.
export async function up(knex: Knex): Promise<void> {
  const columns = `
    kind VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    slot BIGINT UNSIGNED NOT NULL,
    amount BIGINT NOT NULL`
  await knex.raw(`CREATE TABLE IF NOT EXISTS counts (${columns}, PRIMARY KEY (kind, slot)) ENGINE = InnoDB`)
  await knex.raw(`
    CREATE TABLE IF NOT EXISTS count_changes (
      id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, ${columns},
      KEY count_changes_kind_slot (kind, slot, amount)
    ) ENGINE = InnoDB`)
  if ((await indexColumns(knex, 'users', 'users_first_name')).length === 0)
    await knex.raw('ALTER TABLE users ADD KEY users_first_name (first_name)')
  await knex.transaction(countExisting)
}
