// The migrations in their order. A name, once released, never changes.
import type { Knex } from 'knex'
import * as usersAndGroups from './001-users-and-groups.ts'
import * as counts from './002-counts.ts'
import * as idempotencyKeys from './003-idempotency-keys.ts'

interface Migration {
  readonly name: string
  readonly up: (knex: Knex) => Promise<void>
}

export const migrations: readonly Migration[] = [
  { name: '001-users-and-groups', up: usersAndGroups.up },
  { name: '002-counts', up: counts.up },
  { name: '003-idempotency-keys', up: idempotencyKeys.up },
]

/** Says to Knex where the migrations are: in the code, not in a folder that a build may move. */
export const migrationSource: Knex.MigrationSource<Migration> = {
  getMigrations: async () => [...migrations],
  getMigrationName: migration => migration.name,
  getMigration: async migration => ({
    up: migration.up,
    down: () => Promise.reject(new Error('migrations only go forward: restore a backup instead')),
  }),
}
