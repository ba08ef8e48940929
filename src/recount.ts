// Entry of `npm run recount`: compares the kept totals with the tables, prints each difference and corrects it. The
// service can run meanwhile. With `--check` it corrects nothing and exits with 1 if there is a difference. With `--upgraded`,
// earlier versions of the service refuse to start from then on, see counting/earlier-versions.ts.
import { parseArgs } from 'node:util'
import { print, runCommand, UsageError } from './cli/command-line.ts'
import { unreachable } from './cli/preflight.ts'
import { base, privateDatabase } from './cli/private-servers/missing-servers.ts'
import { privateMysqlUrl } from './cli/private-servers/mysql.ts'
import { loadDatabaseConfig } from './config/config.ts'
import { createLog } from './core/log.ts'
import { createRecount } from './database/counting/recount.ts'
import { createDatabase } from './database/database.ts'
import { isNotUpYet } from './database/driver-errors.ts'
import { assertMigrated } from './database/migrator.ts'
import { resources } from './model/index.ts'

/** Counting all rows of a large table takes longer than the queries of the service may take. */
const TIMEOUT_MS = 3_600_000

async function main(): Promise<number> {
  const flag = { type: 'boolean', default: false } as const
  const { values: options } = parseArgs({ options: { check: flag, upgraded: flag } })
  if (options.check && options.upgraded) throw new UsageError('--check and --upgraded exclude each other')
  const config = await loadDatabaseConfig()
  const url = config.database.url ?? (await privateMysqlUrl(privateDatabase, base))
  const log = createLog('silent', 'recount')
  const database = createDatabase({ ...config.database, url, queryTimeoutMs: TIMEOUT_MS }, log)
  try {
    await assertMigrated(database.knex).catch((error: unknown) => {
      throw isNotUpYet(error) ? unreachable(error) : error
    })
    const recount = createRecount(database, resources)
    const differences = await (options.check ? recount.find() : recount.correct(options.upgraded))
    for (const { ids, kept, actual } of differences) print(`${ids}: ${kept} kept, ${actual} counted`)
    const found = `differences: ${differences.length}`
    if (differences.length === 0) print('all kept totals are right')
    else print(options.check ? `${found}, \`npm run recount\` corrects them` : `${found}, corrected`)
    return options.check && differences.length > 0 ? 1 : 0
  } finally {
    await database.close()
  }
}

process.exit(await runCommand(main, 'usage: npm run recount [-- --check | --upgraded]'))
