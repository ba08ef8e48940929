// The migrations in order. The name of a migration never changes: databases have it already.
import type { Knex } from 'knex'
import { excludeEarlierSql } from '../counting/earlier-versions.ts'
import * as usersAndGroups from './001-users-and-groups.ts'
import * as counts from './002-counts.ts'
import * as idempotencyKeys from './003-idempotency-keys.ts'
import * as packedResponses from './004-packed-responses.ts'
import * as schemaInfo from './005-schema-info.ts'
import * as noCascades from './006-no-cascades.ts'
import * as memberBlocks from './007-member-blocks.ts'
import * as changes from './008-changes.ts'
import * as search from './009-search.ts'

export interface Migration {
  readonly name: string
  readonly up: (knex: Knex) => Promise<void>
  /** What an operator must do after this migration, if a version before it can have used the database. */
  readonly demand?: string
}

export const migrations: readonly Migration[] = [
  { name: '001-users-and-groups', up: usersAndGroups.up },
  {
    name: '002-counts',
    up: counts.up,
    demand:
      'a version before this migration does not count what it writes: stop all its processes, then run `npm run recount`',
  },
  { name: '003-idempotency-keys', up: idempotencyKeys.up },
  { name: '004-packed-responses', up: packedResponses.up },
  { name: '005-schema-info', up: schemaInfo.up },
  { name: '006-no-cascades', up: noCascades.up },
  {
    name: '007-member-blocks',
    up: memberBlocks.up,
    demand:
      'pages at a high start_index of a large group stay slow until `npm run recount -- --upgraded` has run: stop all ' +
      'processes of earlier versions first, because one that still runs would make these pages wrong',
  },
  {
    name: '008-changes',
    up: changes.up,
    demand:
      'a version before this migration writes no events into the change feed: when all nodes run this version, and no process of ' +
      'an earlier version is left, run `npm run recount -- --upgraded`, so that none starts again and totals that are asked for ' +
      'again become fast, and then `npm run expire-changes`, so that every reader of the feed begins after that',
  },
  { name: '009-search', up: search.up },
]

/**
 * The version of this code: the number of the last migration that it knows. Code whose version is lower than
 * `schema_info.min_code_version` refuses to serve.
 */
export const codeVersion = migrations.length

/** Makes earlier versions refuse to start on a database that none of them has used. It can be repeated. */
export async function excludeEarlier(knex: Knex): Promise<void> {
  await schemaInfo.up(knex)
  await knex.raw(excludeEarlierSql)
}
