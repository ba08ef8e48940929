// Whether the members of records are counted by blocks. Versions before migration 007 count members, but not by blocks, so
// the blocks are exact only if none of these versions runs.
import type { Knex } from 'knex'

const FIRST_VERSION = 7

/** Returns an SQL expression. */
export const hasExactBlocksSql = (on: Knex): Knex.Raw =>
  on.raw('(SELECT min_code_version >= ? FROM schema_info WHERE id = 1)', [FIRST_VERSION])

/**
 * Returns a statement that makes earlier versions refuse to start. Execute it only if all blocks are exact and none of these
 * versions runs: one that was started before does not read it.
 */
export const keepBlocksExact = (knex: Knex): Knex.QueryBuilder =>
  knex('schema_info')
    .where({ id: 1 })
    .where('min_code_version', '<', FIRST_VERSION)
    .update({ min_code_version: FIRST_VERSION })
