// Counts the members of each group by blocks of user ids, for pages at any start index.
import type { Knex } from 'knex'

/** Number of ids per block. Databases have this migration already, so the value must not change. */
const BLOCK_IDS = 16_384
const GROUPS_PER_STATEMENT = 10_000

// The rows of other kinds, and those of the version before, are in block 0. The total of a group is the sum of its blocks,
// so this statement leaves it unchanged: what it adds to other blocks, it takes from block 0. It can be repeated.
const moveSql = `
  INSERT INTO counts (kind, slot, block, amount)
  WITH moved AS (
    SELECT slot, block, SUM(amount) AS amount FROM (
      SELECT group_id AS slot, user_id DIV ${BLOCK_IDS} AS block, COUNT(*) AS amount FROM memberships
      WHERE group_id BETWEEN :first AND :last AND user_id >= ${BLOCK_IDS}
      GROUP BY group_id, user_id DIV ${BLOCK_IDS}
      UNION ALL
      SELECT slot, block, -amount FROM counts
      WHERE kind = 'groups.members' AND slot BETWEEN :first AND :last AND block > 0
    ) AS differences GROUP BY slot, block HAVING SUM(amount) <> 0
  )
  SELECT 'groups.members', slot, block, amount FROM moved
  UNION ALL SELECT 'groups.members', slot, 0, -SUM(amount) FROM moved GROUP BY slot
  ON DUPLICATE KEY UPDATE amount = counts.amount + VALUES(amount)`

export async function up(knex: Knex): Promise<void> {
  const column = 'ADD COLUMN block BIGINT UNSIGNED NOT NULL DEFAULT 0 AFTER slot'
  if (!(await knex.schema.hasColumn('counts', 'block')))
    await knex.raw(`ALTER TABLE counts ${column}, DROP PRIMARY KEY, ADD PRIMARY KEY (kind, slot, block)`)
  if (!(await knex.schema.hasColumn('count_changes', 'block')))
    await knex.raw(`ALTER TABLE count_changes ${column}, DROP KEY count_changes_kind_slot,
      ADD KEY count_changes_kind_slot_block (kind, slot, block, amount)`)
  // The version before may write meanwhile: the recount corrects the blocks of these members.
  const groups = await knex('groups').max('id as last').first()
  const last = Number(groups?.last ?? 0)
  for (let first = 1; first <= last; first += GROUPS_PER_STATEMENT)
    // At the isolation level of the session, READ COMMITTED, the statement does not lock the memberships that it counts.
    await knex.raw(moveSql, { first, last: first + GROUPS_PER_STATEMENT - 1 })
}
