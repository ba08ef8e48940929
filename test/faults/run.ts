// npm run test:faults [-- --short] [-- name …]: runs the fault scenarios against real servers and prints a summary of
// each. Without names it runs all scenarios; --short runs the shorter forms, as CI does.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { prepareMysql } from '../../src/cli/private-servers/mysql.ts'
import { installMissing, mysqlProgram, redisProgram } from '../../src/cli/private-servers/programs.ts'
import { prepareRedis } from '../../src/cli/private-servers/redis.ts'
import { fullPool } from './full-pool.ts'
import { fuzz } from './fuzz.ts'
import { hostile } from './hostile.ts'
import { killQuery } from './kill-query.ts'
import { mysqlKilled } from './mysql-killed.ts'
import { mysqlSilent } from './mysql-silent.ts'
import { processesKilled } from './processes-killed.ts'
import { redisFaults } from './redis-faults.ts'
import { startRestartableServer } from './restartable-server.ts'
import type { Scenario, ScenarioContext } from './scenario.ts'
import { slowHttpTest } from './slowhttptest.ts'
import { storm } from './storm.ts'

const scenarios: Record<string, Scenario> = {
  'mysql-killed': mysqlKilled,
  'mysql-silent': mysqlSilent,
  storm,
  'kill-query': killQuery,
  'full-pool': fullPool,
  'redis-faults': redisFaults,
  'processes-killed': processesKilled,
  hostile,
  fuzz,
  slowhttptest: slowHttpTest,
}

const { values, positionals } = parseArgs({
  options: { short: { type: 'boolean', default: false } },
  allowPositionals: true,
})

/** Runs the scenarios in sequence. @returns whether all passed */
async function runAll(chosen: readonly Scenario[], context: ScenarioContext): Promise<boolean> {
  const reasons: string[] = []
  for (const { title, run } of chosen) {
    const startedMs = performance.now()
    try {
      const summary = await run(context)
      console.log(`  ✔ ${title} (${((performance.now() - startedMs) / 1000).toFixed(0)} s)\n      ${summary}`)
    } catch (error) {
      console.log(`  ✘ ${title}`)
      reasons.push(`${title}\n${error instanceof Error ? error.stack : error}`)
    }
  }
  // Like AVA: the reasons follow a line that ends the list.
  if (reasons.length > 0) console.log(`  ─\n\n  ${reasons.length} tests failed\n\n${reasons.join('\n\n')}`)
  return reasons.length === 0
}

async function main(): Promise<boolean> {
  const unknown = positionals.filter(name => !Object.hasOwn(scenarios, name))
  if (unknown.length > 0)
    throw new Error(
      `unknown scenario: ${unknown.join(', ')}; the scenarios are ${Object.keys(scenarios).join(', ')}`,
    )
  const chosen = Object.entries(scenarios)
    .filter(([name]) => positionals.length === 0 || positionals.includes(name))
    .map(([, scenario]) => scenario)
    .filter(({ longOnly }) => !values.short || !longOnly)
  await installMissing([mysqlProgram, redisProgram], console.log)
  const base = await mkdtemp(join(tmpdir(), 'users-api-faults-'))
  const mysql = await startRestartableServer(
    await prepareMysql('', { base, durable: true, print: console.log }),
  )
  const redis = await startRestartableServer(await prepareRedis({ base }))
  process.env.TEST_DATABASE_URL = mysql.url
  process.env.TEST_REDIS_URL = redis.url
  console.log(`on ${mysql.title}, Node ${process.version.slice(1)}`)
  try {
    return await runAll(chosen, { short: values.short, mysql, redis })
  } finally {
    await Promise.all([mysql.stop(), redis.stop()])
    await rm(base, { recursive: true, force: true })
  }
}

// Exits explicitly: a failed scenario may leave open handles.
process.exit((await main()) ? 0 : 1)
