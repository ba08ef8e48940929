// Applies the pending migrations to a database.
import type { Knex } from 'knex'
import { escapeId } from 'mysql2'
import { databaseNameOf, withDatabase } from '../config/host-urls.ts'
import { hasCode } from '../core/error-reason.ts'
import { exitCodes, FatalError } from '../core/exit-codes.ts'
import type { Log } from '../core/log.ts'
import { retryMigration, underMigrationLock } from './migration-lock.ts'
import { codeVersion, excludeEarlier, migrations } from './migrations/index.ts'
import { openPool } from './pool.ts'

type OnNotice = (notice: string) => void

const pool = { max: 3, acquireTimeoutMs: 10_000, silenceTimeoutMs: 0 }

/** The names of the applied migrations. The table is that of Knex, which runs the migrations in earlier versions of the service. */
const applied = 'knex_migrations'
const createAppliedSql = `
  CREATE TABLE IF NOT EXISTS ${applied} (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(255) NULL,
    batch INT NULL,
    migration_time TIMESTAMP NULL
  ) ENGINE = InnoDB`

/** Creates the error of a schema with which this code cannot serve. */
const unfit = (message: string): FatalError => new FatalError(exitCodes.configuration, message)

/** Returns no rows if the table or its database does not exist. */
async function rowsIfPresent<T>(table: PromiseLike<T[]>): Promise<T[]> {
  try {
    return await table
  } catch (error) {
    if (hasCode(error, 'ER_NO_SUCH_TABLE', 'ER_BAD_DB_ERROR')) return []
    throw error
  }
}

/** Returns the lowest version of the code that may use the schema. */
async function minCodeVersion(knex: Knex): Promise<number> {
  const [info] = await rowsIfPresent<{ version: number }>(
    knex('schema_info').select('min_code_version as version'),
  )
  return info?.version ?? 0
}

/** Returns the migrations of this code that the schema lacks. @throws FatalError if the schema demands newer code */
async function pendingMigrations(knex: Knex): Promise<string[]> {
  const minVersion = await minCodeVersion(knex)
  if (minVersion > codeVersion)
    throw unfit(
      `the database needs version ${minVersion} of the code, and this is version ${codeVersion}: run a newer release`,
    )
  const rows = await rowsIfPresent<{ name: string }>(knex(applied).select('name'))
  return migrations.map(({ name }) => name).filter(name => rows.every(row => row.name !== name))
}

/**
 * A newer schema is accepted unless it demands newer code.
 * @throws FatalError if the schema lacks a migration of this code, or demands newer code
 */
export async function assertMigrated(knex: Knex): Promise<void> {
  const pending = await pendingMigrations(knex)
  if (pending.length > 0)
    throw unfit(
      `the database lacks the migrations ${pending.join(', ')}: run \`npm run migrate\` with its DATABASE_URL`,
    )
}

async function createMissingDatabase(url: string, log: Log): Promise<void> {
  const knex = openPool(withDatabase(url, ''), pool, log)
  // Knex would take a dot in the name for the end of a qualifier.
  const name = escapeId(databaseNameOf(url), true)
  await knex.raw(`CREATE DATABASE IF NOT EXISTS ${name}`).finally(() => knex.destroy())
}

/** Applies the pending migrations while this process holds the lock. */
async function applyPending(knex: Knex, assertHeld: () => Promise<void>, onNotice: OnNotice) {
  // Another process can have applied some of them meanwhile.
  const pending = await pendingMigrations(knex)
  const isNew = pending.length === migrations.length
  if (isNew) {
    await assertHeld()
    // Before the first migration: after an interruption, only this shows that no earlier version has used the database.
    await retryMigration(() => excludeEarlier(knex))
    await retryMigration(() => knex.raw(createAppliedSql))
  }
  const minVersion = await minCodeVersion(knex)
  for (const [index, { name, up, demand }] of migrations.entries()) {
    if (!pending.includes(name)) continue
    await retryMigration(async () => {
      await assertHeld()
      await up(knex)
    })
    if (demand !== undefined && !isNew && minVersion <= index) onNotice(`${name}: ${demand}`)
    await retryMigration(() => knex(applied).insert({ name, batch: 1, migration_time: new Date() }))
  }
  return pending
}

/**
 * Applies the pending migrations. It is safe to run on several nodes at the same time and after a crash.
 * @param url the database, which is created if it does not exist; the user needs privileges for schema changes
 * @param onNotice called if another process is migrating, and with what a migration demands of an operator, before the next one
 *   begins: a further run after an interruption does not apply the first one again
 * @returns the names of the migrations that were applied
 * @throws FatalError if the schema demands newer code
 */
export async function migrate(url: string, log: Log, onNotice: OnNotice = () => {}): Promise<string[]> {
  const knex = openPool(url, pool, log)
  try {
    await knex.raw('SELECT 1').catch(async (error: unknown) => {
      if (!hasCode(error, 'ER_BAD_DB_ERROR')) throw error
      await createMissingDatabase(url, log)
    })
    if ((await pendingMigrations(knex)).length === 0) return []
    return await underMigrationLock(
      knex,
      assertHeld => applyPending(knex, assertHeld, onNotice),
      () => onNotice('another process migrates the database: waiting until it has finished'),
    )
  } finally {
    await knex.destroy()
  }
}
