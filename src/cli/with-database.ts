// The database of the commands that read or correct what the service has stored.
import { loadDatabaseConfig } from '../config/config.ts'
import { hasCode, reasonOf } from '../core/error-reason.ts'
import { exitCodeOf, exitCodes, FatalError } from '../core/exit-codes.ts'
import { createLog } from '../core/log.ts'
import { createDatabase, type Database } from '../database/database.ts'
import { isNotUpYet, rejectionOf } from '../database/driver-errors.ts'
import { assertMigrated } from '../database/migrator.ts'
import { unreachable } from './preflight.ts'
import { base, privateDatabase } from './private-servers/missing-servers.ts'
import { privateMysqlUrl } from './private-servers/mysql.ts'

/**
 * Calls `act` with the database of the settings, or else the private one.
 * @param timeoutMs how long a query may take; as the settings say by default
 * @throws FatalError if the database does not respond, rejects the connection or has a schema that this code cannot use, or
 *   if `act` fails
 */
export async function withDatabase<T>(
  act: (database: Database) => Promise<T>,
  timeoutMs?: number,
): Promise<T> {
  const { database: settings } = await loadDatabaseConfig()
  let database: Database | undefined
  try {
    const url = settings.url ?? (await privateMysqlUrl(privateDatabase, base))
    const queryTimeoutMs = timeoutMs ?? settings.queryTimeoutMs
    database = createDatabase({ ...settings, url, queryTimeoutMs }, createLog('silent', 'command'))
    await assertMigrated(database.knex).catch((error: unknown) => {
      if (isNotUpYet(error)) throw unreachable(error)
      throw hasCode(error) ? new Error(rejectionOf(error)) : error
    })
    return await act(database)
  } catch (error) {
    if (exitCodeOf(error) !== undefined) throw error
    // Not 1, with which `recount -- --check` says that there are differences.
    throw new FatalError(exitCodes.unavailable, reasonOf(error))
  } finally {
    await database?.close()
  }
}
