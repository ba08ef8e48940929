// The schema of a new database. dist/migrate.js creates it once on each test server; other databases get a copy, because a
// migration is a process with a second of CPU time, and a copy is a few statements.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Connection, RowDataPacket } from 'mysql2/promise'
import { root } from '../../src/config/root.ts'

const TEMPLATE = 'test_template'
/** In seconds. Other test files wait while the first one migrates. */
const LOCK_TIMEOUT = 100

async function createTemplate(
  connection: Connection,
  envOf: (database: string) => NodeJS.ProcessEnv,
): Promise<void> {
  await connection.query(`CREATE DATABASE ${TEMPLATE}`)
  const migration = promisify(execFile)(process.execPath, ['dist/migrate.js'], {
    cwd: root,
    env: envOf(TEMPLATE),
  })
  await migration.catch(async error => {
    await connection.query(`DROP DATABASE ${TEMPLATE}`)
    throw error
  })
}

/**
 * Creates the tables of the service, and their first rows, in the database `name`, which has none.
 * @param envOf returns the environment in which dist/migrate.js migrates a database
 * @throws Error of the migration
 */
export async function createSchema(
  connection: Connection,
  name: string,
  envOf: (database: string) => NodeJS.ProcessEnv,
): Promise<void> {
  const query = async (statement: string, values: unknown[] = []) =>
    (await connection.query<RowDataPacket[]>(statement, values))[0]
  await query('SELECT GET_LOCK(?, ?)', [TEMPLATE, LOCK_TIMEOUT])
  const isThere = (await query('SHOW DATABASES LIKE ?', [TEMPLATE])).length > 0
  if (!isThere) await createTemplate(connection, envOf)
  await query('SELECT RELEASE_LOCK(?)', [TEMPLATE])

  await query('USE ??', [name])
  // A table can be created before those that its foreign keys name. In some modes, its statement lacks the options.
  await query("SET foreign_key_checks = 0, sql_mode = ''")
  for (const row of await query('SHOW TABLES FROM ??', [TEMPLATE])) {
    const [table] = Object.values(row)
    const original = `${TEMPLATE}.${table}`
    const [created] = await query('SHOW CREATE TABLE ??', [original])
    await query(created?.['Create Table'])
    const isEmpty = (await query('SELECT 1 FROM ?? LIMIT 1', [original])).length === 0
    // Most tables are empty. Not all of their columns could be inserted: some may be generated.
    if (!isEmpty) await query('INSERT INTO ?? SELECT * FROM ??', [table, original])
  }
}
