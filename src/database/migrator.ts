// Applies the pending migrations to a database.
import type { Knex } from 'knex'
import { databaseNameOf, withDatabase } from '../config/database-url.ts'
import { hasCode } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import { codeVersion, migrationSource, migrations } from './migrations/index.ts'
import { openPool } from './pool.ts'

const LOCK_SECONDS = 120
const pool = { max: 3, acquireTimeoutMs: 10_000, silenceTimeoutMs: 0 }

/** The code cannot serve with the schema of the database. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
}

/** Returns no rows if the table does not exist. */
async function rowsOf<T>(table: PromiseLike<T[]>): Promise<T[]> {
  try {
    return await table
  } catch (error) {
    if (hasCode(error) && (error.code === 'ER_NO_SUCH_TABLE' || error.code === 'ER_BAD_DB_ERROR')) return []
    throw error
  }
}

/** @throws SchemaError if this code is older than the schema permits */
export async function assertNotOutdated(knex: Knex): Promise<void> {
  const [info] = await rowsOf<{ version: number }>(knex('schema_info').select('min_code_version as version'))
  if (info !== undefined && info.version > codeVersion)
    throw new SchemaError(
      `the database needs version ${info.version} of the code, and this is version ${codeVersion}: run a newer release`,
    )
}

/**
 * A newer schema is accepted unless it demands newer code.
 * @throws SchemaError if the schema lacks a migration of this code, or demands newer code
 */
export async function assertMigrated(knex: Knex): Promise<void> {
  const rows = await rowsOf<{ name: string }>(knex('knex_migrations').select('name'))
  const missing = migrations.map(({ name }) => name).filter(name => !rows.some(row => row.name === name))
  if (missing.length > 0)
    throw new SchemaError(
      `the database lacks the migrations ${missing.join(', ')}: run \`npm run migrate\` with its DATABASE_URL`,
    )
  await assertNotOutdated(knex)
}

/** Returns what the applied migrations demand of an operator; nothing for a database that they have created. */
export function demandsOf(applied: readonly string[]): string[] {
  if (applied.includes(migrations[0]?.name ?? '')) return []
  return migrations.flatMap(({ name, demand }) =>
    demand !== undefined && applied.includes(name) ? [`${name}: ${demand}`] : [],
  )
}

async function createDatabase(url: string, log: Log): Promise<void> {
  const knex = openPool(withDatabase(url, ''), pool, log)
  await knex.raw('CREATE DATABASE IF NOT EXISTS ??', [databaseNameOf(url)]).finally(() => knex.destroy())
}

/**
 * Applies the pending migrations. It is safe to run on several nodes at the same time and after a crash.
 * @param url the database, which is created if it does not exist; the user needs privileges for schema changes
 * @returns the names of the migrations that were applied
 * @throws SchemaError if the schema demands newer code
 */
export async function migrate(url: string, log: Log): Promise<string[]> {
  const knex = openPool(url, pool, log)
  try {
    await knex.raw('SELECT 1').catch(async (error: unknown) => {
      if (!hasCode(error) || error.code !== 'ER_BAD_DB_ERROR') throw error
      await createDatabase(url, log)
    })
    return await underLock(knex, async () => {
      // This process holds the server's lock, so a remaining Knex lock belongs to a crashed process.
      await knex.migrate.forceFreeMigrationsLock({ migrationSource })
      await assertNotOutdated(knex)
      const [, applied] = await knex.migrate.latest({
        migrationSource,
        disableMigrationsListValidation: true,
      })
      log.info({ applied }, 'schema up to date')
      return applied
    })
  } finally {
    await knex.destroy()
  }
}

/**
 * Runs `act` while a connection holds a named lock of the server. The server releases it with the connection.
 */
async function underLock<T>(knex: Knex, act: () => Promise<T>): Promise<T> {
  const holder = await knex.client.acquireConnection()
  try {
    const [rows] = await knex
      .raw("SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 40), '.migrations'), ?) AS held", [LOCK_SECONDS])
      .connection(holder)
    if (rows[0].held !== 1)
      throw new Error(
        `another migration is still running after ${LOCK_SECONDS} s: try again when it has finished`,
      )
    return await act()
  } finally {
    // The lock is released when the caller destroys the pool and so closes the connection.
    await knex.client.releaseConnection(holder)
  }
}
