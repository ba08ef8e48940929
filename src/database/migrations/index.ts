// The migrations in order. The name of a released migration never changes.
import type { Knex } from 'knex'
import * as usersAndGroups from './001-users-and-groups.ts'
import * as counts from './002-counts.ts'
import * as idempotencyKeys from './003-idempotency-keys.ts'
import * as packedResponses from './004-packed-responses.ts'

interface Migration {
  readonly name: string
  readonly up: (knex: Knex) => Promise<void>
}

export const migrations: readonly Migration[] = [
  { name: '001-users-and-groups', up: usersAndGroups.up },
  { name: '002-counts', up: counts.up },
  { name: '003-idempotency-keys', up: idempotencyKeys.up },
  { name: '004-packed-responses', up: packedResponses.up },
]

/** Provides the migrations to Knex from this module, not from a folder whose path depends on the build. */
export const migrationSource: Knex.MigrationSource<Migration> = {
  getMigrations: async () => [...migrations],
  getMigrationName: migration => migration.name,
  getMigration: async migration => ({
    up: migration.up,
    down: () => Promise.reject(new Error('migrations cannot be reverted: restore a backup instead')),
  }),
}
