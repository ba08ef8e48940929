// Entry point of `npm run recount`: compares the kept totals with the tables, prints each difference and corrects it. The
// service can run meanwhile. With `--check` it corrects nothing and exits with 1 if there is a difference. With `--upgraded`,
// earlier versions of the service refuse to start from then on, see database/counting/earlier-versions.ts.
import { parseArgs } from 'node:util'
import { print, runCommand, UsageError } from './cli/command-line.ts'
import { withDatabase } from './cli/with-database.ts'
import { createRecount } from './database/counting/recount.ts'
import { resources } from './model/index.ts'

/** Counting all rows of a large table takes longer than the queries of the service may take. */
const TIMEOUT_MS = 3_600_000

async function main(): Promise<number> {
  const flag = { type: 'boolean', default: false } as const
  const { check, upgraded } = parseArgs({ options: { check: flag, upgraded: flag } }).values
  if (check && upgraded) throw new UsageError('--check and --upgraded exclude each other')
  const differences = await withDatabase(database => {
    const { find, correct } = createRecount(database, resources)
    return check ? find() : correct(upgraded)
  }, TIMEOUT_MS)
  for (const { ids, kept, actual } of differences) print(`${ids}: ${kept} kept, ${actual} counted`)
  const found = `differences: ${differences.length}`
  if (differences.length === 0) print('all kept totals are right')
  else print(check ? `${found}, \`npm run recount\` corrects them` : `${found}, corrected`)
  return check && differences.length > 0 ? 1 : 0
}

const usage = `usage: npm run recount [-- --check | --upgraded]

  compares the kept totals with the tables, prints each difference and corrects it; the service can run meanwhile

  --check      correct nothing, and exit with 1 if there is a difference
  --upgraded   also confirm that no process of a version before migration 008 runs: such versions, from
               migration 005 on, do not start any more`

process.exit(await runCommand(main, usage))
