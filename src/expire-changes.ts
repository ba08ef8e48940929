// Entry point of `npm run expire-changes`: makes every position of the change feed expire that was given out until now, after
// a backup was restored or an earlier version of the service has written. Readers then copy the collections again.
import { parseArgs } from 'node:util'
import { print, runCommand } from './cli/command-line.ts'
import { withDatabase } from './cli/with-database.ts'
import { expirePositions } from './database/feed/retention.ts'

async function main(): Promise<number> {
  parseArgs({ options: {} })
  const floor = await withDatabase(expirePositions)
  print(`all earlier positions of the change feed have expired: it continues after ${floor}`)
  return 0
}

const usage = `usage: npm run expire-changes

  makes every position of the change feed expire that was given out until now, after a backup was restored or an earlier
  version has written: each reader gets 410 and copies the collections again`

process.exit(await runCommand(main, usage))
