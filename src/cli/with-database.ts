// The database of the commands that read or correct what the service has stored.
import { loadDatabaseConfig } from '../config/config.ts'
import { hasCode } from '../core/error-reason.ts'
import { createLog } from '../core/log.ts'
import { createDatabase, type Database } from '../database/database.ts'
import { isNotUpYet, rejectionOf } from '../database/driver-errors.ts'
import { assertMigrated } from '../database/migrator.ts'
import { unreachable } from './preflight.ts'
import { base, privateDatabase } from './private-servers/missing-servers.ts'
import { privateMysqlUrl } from './private-servers/mysql.ts'

/**
 * Calls `act` with the database of the configuration, or else the private one.
 * @param timeoutMs how long a query may take; as the configuration says by default
 * @throws Error if the database does not respond or rejects the connection, FatalError if this code cannot use its schema
 */
export async function withDatabase<T>(
  act: (database: Database) => Promise<T>,
  timeoutMs?: number,
): Promise<T> {
  const { database: settings } = await loadDatabaseConfig()
  const url = settings.url ?? (await privateMysqlUrl(privateDatabase, base))
  const queryTimeoutMs = timeoutMs ?? settings.queryTimeoutMs
  const database = createDatabase({ ...settings, url, queryTimeoutMs }, createLog('silent', 'command'))
  try {
    await assertMigrated(database.knex).catch((error: unknown) => {
      if (isNotUpYet(error)) throw unreachable(error)
      throw hasCode(error) ? new Error(rejectionOf(error)) : error
    })
    return await act(database)
  } finally {
    await database.close()
  }
}
