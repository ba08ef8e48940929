// Brings a database to the schema of this code.
import type { Knex } from 'knex'
import { hasCode } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import { migrationSource, migrations } from './migrations/index.ts'
import { openPool } from './pool.ts'

const LOCK_SECONDS = 120
const pool = { max: 3, acquireTimeoutMs: 10_000, silenceTimeoutMs: 0 }

/** The schema is older than the code. */
export class UnmigratedError extends Error {
  constructor(missing: readonly string[]) {
    super(`the database lacks ${missing.join(', ')}: run \`npm run migrate\` with its DATABASE_URL`)
    this.name = 'UnmigratedError'
  }
}

/** @throws UnmigratedError if a migration of this code is missing; a newer schema is welcome */
export async function assertMigrated(knex: Knex): Promise<void> {
  const names = migrations.map(migration => migration.name)
  const rows: { name: string }[] = await knex('knex_migrations')
    .select('name')
    .catch((error: unknown) => {
      if (hasCode(error) && (error.code === 'ER_NO_SUCH_TABLE' || error.code === 'ER_BAD_DB_ERROR')) return []
      throw error
    })
  const missing = names.filter(name => !rows.some(row => row.name === name))
  if (missing.length > 0) throw new UnmigratedError(missing)
}

async function createDatabase(url: string, log: Log): Promise<void> {
  const name = decodeURIComponent(new URL(url).pathname.slice(1))
  const server = new URL(url)
  server.pathname = '/'
  const knex = openPool(server.href, pool, log)
  await knex.raw('CREATE DATABASE IF NOT EXISTS ??', [name]).finally(() => knex.destroy())
}

/**
 * Applies what is missing; safe when several nodes do it at once, and after a crash in the middle.
 * @param url of the database, which is created if it is not there; its user needs the right to change the schema
 * @returns the names of the migrations that were applied
 */
export async function migrate(url: string, log: Log): Promise<string[]> {
  const knex = openPool(url, pool, log)
  try {
    await knex.raw('SELECT 1').catch(async (error: unknown) => {
      if (!hasCode(error) || error.code !== 'ER_BAD_DB_ERROR') throw error
      await createDatabase(url, log)
    })
    return await underLock(knex, async () => {
      // Whoever left Knex's own lock behind is dead: the server's lock is ours.
      await knex.migrate.forceFreeMigrationsLock({ migrationSource })
      const [, applied] = await knex.migrate.latest({ migrationSource })
      log.info({ applied }, 'the schema is current')
      return applied
    })
  } finally {
    await knex.destroy()
  }
}

/** Runs `act` while this connection holds the server's lock, which the server frees when the connection ends. */
async function underLock<T>(knex: Knex, act: () => Promise<T>): Promise<T> {
  const holder = await knex.client.acquireConnection()
  try {
    const [rows] = await knex
      .raw("SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 40), '.migrations'), ?) AS held", [LOCK_SECONDS])
      .connection(holder)
    if (rows[0].held !== 1) throw new Error(`another migration has been running for ${LOCK_SECONDS} s`)
    return await act()
  } finally {
    // The lock goes with its connection: the pool is destroyed next.
    await knex.client.releaseConnection(holder)
  }
}
