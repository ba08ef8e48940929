// Entry point of `npm run migrate`: brings the database of DATABASE_URL to the schema of this code.
import { parseArgs } from 'node:util'
import { print, runCommand } from './cli/command-line.ts'
import { migrateWhenUp } from './cli/preflight.ts'
import { ConfigError, loadDatabaseConfig } from './config/config.ts'

async function main(): Promise<number> {
  parseArgs({ options: {} })
  const config = await loadDatabaseConfig()
  if (config.database.url === null)
    throw new ConfigError([
      'database.url: is missing; set DATABASE_URL (`npm start` migrates its private database itself)',
    ])
  const applied = await migrateWhenUp(config.database.url, () => {}, { timeoutMs: 0, onNotice: print })
  print(applied.length === 0 ? 'the database is up to date' : `applied ${applied.join(', ')}`)
  return 0
}

const usage = `usage: npm run migrate

  brings the schema of the database of DATABASE_URL to this version, and says what else a migration requires; the service
  can run meanwhile`

process.exit(await runCommand(main, usage))
