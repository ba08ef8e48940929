// Entry of `npm start`: from nothing to a healthy service under pm2. It ends with that, or with nothing left behind.
import { setTimeout as delay } from 'node:timers/promises'
import { dataUrl, healthUrl } from './addresses.ts'
import { runCommand, say, serviceName } from './command-line.ts'
import { type Config, loadConfig, root } from './config.ts'
import { exitCodes } from './exit-codes.ts'
import { createLog } from './log.ts'
import { AppEndedError, type ProcessManager, withProcessManager } from './pm2/process-manager.ts'
import { startServer } from './pm2/servers.ts'
import { base, startService, stopEverything, untilHealthy } from './pm2/service.ts'
import { prepareMysql } from './private-servers/mysql.ts'
import { installMissing, mysqlProgram, redisProgram } from './private-servers/programs.ts'
import { prepareRedis } from './private-servers/redis.ts'
import { isNotUpYet } from './store/failures.ts'
import { migrate } from './store/migrate.ts'

const DATABASE_TIMEOUT_MS = 30_000
const DATABASE_PAUSE_MS = 500

/** Starts private servers where the configuration has no URL. @returns their URLs, as the environment of the service */
async function startServers(config: Config, manager: ProcessManager): Promise<Record<string, string>> {
  const needsMysql = config.database.url === null
  const needsRedis = config.cache.url === null
  await installMissing([...(needsMysql ? [mysqlProgram] : []), ...(needsRedis ? [redisProgram] : [])], say)
  const env: Record<string, string> = {}
  if (needsRedis) {
    const redis = await prepareRedis({ base })
    say(`starting ${redis.title}`)
    await startServer(manager, base, 'redis', redis)
    env.REDIS_URL = redis.url
  }
  if (needsMysql) {
    const mysql = await prepareMysql('users_api', { base, durable: true, say })
    say(`starting ${mysql.title}`)
    await startServer(manager, base, 'mysql', mysql)
    env.DATABASE_URL = mysql.url
  }
  return env
}

/** Migrates, with patience for a database that is just starting. */
async function migrateDatabase(url: string): Promise<void> {
  const giveUpMs = performance.now() + DATABASE_TIMEOUT_MS
  for (let attempt = 1; ; attempt++) {
    try {
      const applied = await migrate(url, createLog('warn', 'migrate'))
      if (applied.length > 0) say(`migrated the database: ${applied.join(', ')}`)
      return
    } catch (error) {
      if (!(error instanceof Error) || !isNotUpYet(error)) throw error
      const { message } = error
      if (performance.now() > giveUpMs)
        throw new Error(`the database cannot be reached (${message}): start it, or correct DATABASE_URL`)
      if (attempt === 1) say(`waiting for the database: ${message}`)
    }
    await delay(DATABASE_PAUSE_MS)
  }
}

function describe(config: Config): string {
  const ports = config.ports.map(
    port =>
      `  ${port.label.padEnd(8)}${`${dataUrl(config, port)}/v1/users`.padEnd(40)}${healthUrl(config, port, port)}`,
  )
  const [first] = config.ports
  const curl =
    first === undefined
      ? ''
      : `  curl ${first.protocol === 'https' ? '-k ' : ''}${dataUrl(config, first)}/v1/users`
  return `
${ports.join('\n')}

Next:
${curl}
  npm run ops -- status          what runs, port by port
  npx pm2 logs ${serviceName}         what it says
  npm stop                       ends it; the data stay in var/
`
}

/** What to do about an exit code, where there is more to do than the service itself says. */
const remedies: Readonly<Record<number, string>> = {
  [exitCodes.portTaken]: '; free that port, or choose others in config/ or with NODE_CONFIG',
}

async function bringUp(config: Config, manager: ProcessManager): Promise<string[]> {
  const env = await startServers(config, manager)
  const url = config.database.url ?? env.DATABASE_URL
  if (url !== undefined) await migrateDatabase(url)
  say('starting the service')
  await startService(manager, env)
  return untilHealthy(config, manager)
}

async function start(config: Config, manager: ProcessManager): Promise<number> {
  const app = await manager.find(serviceName)
  if (app?.isRunning) {
    if (`${app.folder}/` !== root)
      throw new Error(
        `it is running already, but from ${app.folder}: stop it there, or set a PM2_HOME of its own here`,
      )
    say(`it is running already\n${describe(config)}`)
    return 0
  }
  const startedMs = performance.now()
  try {
    const inMaintenance = await bringUp(config, manager)
    say(`it runs, after ${((performance.now() - startedMs) / 1000).toFixed(1)} s\n${describe(config)}`)
    for (const label of inMaintenance)
      say(`${label} is in maintenance, as it was: npm run ops -- resume ${label}`)
    return 0
  } catch (error) {
    await stopEverything(manager)
    if (!(error instanceof AppEndedError)) throw error
    throw new Error(`${error.message}${remedies[error.exitCode ?? 0] ?? ''}`)
  }
}

async function main(): Promise<number> {
  const config = await loadConfig()
  return withProcessManager(manager => start(config, manager))
}

process.exit(await runCommand(main))
