// npm run test:faults [-- --short] [-- name …]: runs the fault scenarios against real servers and prints a summary of
// each. Without names it runs all scenarios; --short runs the shorter forms, as CI does.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { prepareMysql } from '../../src/cli/private-servers/mysql.ts'
import { installMissing, mysqlProgram, redisProgram } from '../../src/cli/private-servers/programs.ts'
import { prepareRedis } from '../../src/cli/private-servers/redis.ts'
import { useProjectSettings } from '../support/project-settings.ts'
import { busyGroup } from './busy-group.ts'
import { changeFeed } from './change-feed.ts'
import { fullPool } from './full-pool.ts'
import { fuzz } from './fuzz.ts'
import { groupRenames } from './group-renames.ts'
import { heldLocks } from './held-locks.ts'
import { hostile } from './hostile.ts'
import { killQuery } from './kill-query.ts'
import { mysqlKilled } from './mysql-killed.ts'
import { mysqlSilent } from './mysql-silent.ts'
import { processesKilled } from './processes-killed.ts'
import { rawBytes } from './raw-bytes.ts'
import { redisFaults } from './redis-faults.ts'
import { startRestartableServer } from './restartable-server.ts'
import { chooseScenarios, runScenarios } from './run-scenarios.ts'
import type { Scenario } from './scenario.ts'
import { slowHttpTest } from './slowhttptest.ts'
import { storm } from './storm.ts'

const scenarios: Record<string, Scenario> = {
  'mysql-killed': mysqlKilled,
  'mysql-silent': mysqlSilent,
  storm,
  'held-locks': heldLocks,
  'busy-group': busyGroup,
  'group-renames': groupRenames,
  'kill-query': killQuery,
  'full-pool': fullPool,
  'redis-faults': redisFaults,
  'processes-killed': processesKilled,
  'change-feed': changeFeed,
  hostile,
  fuzz,
  'raw-bytes': rawBytes,
  slowhttptest: slowHttpTest,
}

const { values, positionals } = parseArgs({
  options: { short: { type: 'boolean', default: false } },
  allowPositionals: true,
})

async function main(): Promise<boolean> {
  const chosen = chooseScenarios(scenarios, positionals, values.short)
  await installMissing([mysqlProgram, redisProgram], console.log)
  const base = await mkdtemp(join(tmpdir(), 'users-api-faults-'))
  await useProjectSettings(join(base, 'config'))
  const mysql = await startRestartableServer(
    await prepareMysql('', { base, durable: true, print: console.log }),
  )
  const redis = await startRestartableServer(await prepareRedis({ base }))
  process.env.TEST_DATABASE_URL = mysql.url
  process.env.TEST_REDIS_URL = redis.url
  console.log(`on ${mysql.title}, Node ${process.version.slice(1)}`)
  try {
    return await runScenarios(chosen, { short: values.short, mysql, redis })
  } finally {
    await Promise.all([mysql.stop(), redis.stop()])
    await rm(base, { recursive: true, force: true })
  }
}

// What this process has started ends with it, but not if it ends by a signal.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1))

// Exits explicitly: a failed scenario may leave open handles.
process.exit((await main()) ? 0 : 1)
