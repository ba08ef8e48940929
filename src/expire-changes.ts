// Entry point of `npm run expire-changes`: makes every position of the change feed expire that was given out until now, after
// a backup was restored or an earlier version of the service has written. Readers then copy the collections again.
import { parseArgs } from 'node:util'
import { print, runCommand } from './cli/command-line.ts'
import { unreachable } from './cli/preflight.ts'
import { base, privateDatabase } from './cli/private-servers/missing-servers.ts'
import { privateMysqlUrl } from './cli/private-servers/mysql.ts'
import { loadDatabaseConfig } from './config/config.ts'
import { createLog } from './core/log.ts'
import { createDatabase } from './database/database.ts'
import { isNotUpYet } from './database/driver-errors.ts'
import { expirePositions } from './database/feed/retention.ts'
import { assertMigrated } from './database/migrator.ts'

async function main(): Promise<number> {
  parseArgs({ options: {} })
  const config = await loadDatabaseConfig()
  const url = config.database.url ?? (await privateMysqlUrl(privateDatabase, base))
  const database = createDatabase({ ...config.database, url }, createLog('silent', 'expire-changes'))
  try {
    await assertMigrated(database.knex).catch((error: unknown) => {
      throw isNotUpYet(error) ? unreachable(error) : error
    })
    const floor = await expirePositions(database)
    print(`all earlier positions of the change feed have expired: it continues after ${floor}`)
    return 0
  } finally {
    await database.close()
  }
}

process.exit(await runCommand(main, 'usage: npm run expire-changes'))
