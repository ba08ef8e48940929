// Entry of `npm start`: from nothing to a healthy service under pm2. It ends with that, or with nothing left behind.
import { controlUrl, dataUrl, healthUrl } from './addresses.ts'
import { runCommand, say, serviceName } from './command-line.ts'
import { type Config, loadConfig } from './config.ts'
import { assertPortsFree, migrateWhenUp } from './pm2/preconditions.ts'
import { type ProcessManager, withProcessManager } from './pm2/process-manager.ts'
import { startServer } from './pm2/servers.ts'
import { base, startService, stopEverything, untilHealthy } from './pm2/service.ts'
import { prepareMysql } from './private-servers/mysql.ts'
import { installMissing, mysqlProgram, redisProgram } from './private-servers/programs.ts'
import { prepareRedis } from './private-servers/redis.ts'
import { root } from './root.ts'
import { createSteps, type Steps } from './steps.ts'
import { readState } from './supervisor/state-file.ts'

const DATABASE_TIMEOUT_MS = 30_000

/** Starts private servers where the configuration has no URL. @returns their URLs, as the environment of the service */
async function startServers(
  config: Config,
  manager: ProcessManager,
  { begin }: Steps,
): Promise<Record<string, string>> {
  const needsMysql = config.database.url === null
  const needsRedis = config.cache.url === null
  await installMissing([...(needsMysql ? [mysqlProgram] : []), ...(needsRedis ? [redisProgram] : [])], begin)
  const env: Record<string, string> = {}
  if (needsRedis) {
    const redis = await prepareRedis({ base })
    begin(`starting ${redis.title}`)
    await startServer(manager, base, 'redis', redis)
    env.REDIS_URL = redis.url
  }
  if (needsMysql) {
    const mysql = await prepareMysql('users_api', { base, durable: true, say: begin })
    begin(`starting ${mysql.title}`)
    await startServer(manager, base, 'mysql', mysql)
    env.DATABASE_URL = mysql.url
  }
  return env
}

/** The screen that a start ends with. */
function describe(config: Config): string {
  const row = (title: string, text: string) => `  ${title.padEnd(14)}${text}`
  const [first] = config.ports
  if (first === undefined) return ''
  const curl = `curl ${first.protocol === 'https' ? '-k ' : ''}${dataUrl(config, first)}/v1/users`
  return `
${config.ports.map((port, at) => row(at === 0 ? 'API' : '', `${dataUrl(config, port)}/v1/users`)).join('\n')}
${row('its document', `${dataUrl(config, first)}/v1/docs`)}
${row('status page', `${controlUrl(config, first)}/`)}
${config.ports.map((port, at) => row(at === 0 ? 'health checks' : '', healthUrl(config, port, port))).join('\n')}

Try:
  ${curl} -H 'Content-Type: application/json' -d '{"first_name": "Ada", "last_name": "Lovelace"}'
  npm run load -- test/data/community.json      people and groups from a file, JSON or CSV
  npm run ops -- status                         what runs, port by port

\`npx pm2 logs ${serviceName}\` shows what it says; \`npm stop\` ends it, the data stay in var/.
`
}

/** @returns the labels of the ports that are in maintenance, as they were before */
async function bringUp(config: Config, manager: ProcessManager, steps: Steps): Promise<string[]> {
  await assertPortsFree(config)
  const env = await startServers(config, manager, steps)
  const url = config.database.url ?? env.DATABASE_URL
  if (url !== undefined) await migrateWhenUp(url, DATABASE_TIMEOUT_MS, steps.begin)
  steps.begin('starting the service')
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
  const steps = createSteps(process.stdout)
  const state = readState(config.stateFile)
  try {
    const inMaintenance = await bringUp(config, manager, steps)
    steps.end()
    say(`it runs, after ${((performance.now() - startedMs) / 1000).toFixed(1)} s\n${describe(config)}`)
    for (const label of inMaintenance)
      say(`${label} is in maintenance, as it was: npm run ops -- resume ${label}`)
    if (state.is === 'damaged')
      say(
        `${config.stateFile} was damaged, so that every port is in service: npm run ops -- drain <label> where that is wrong`,
      )
    return 0
  } catch (error) {
    steps.end()
    await stopEverything(manager)
    throw error
  }
}

async function main(): Promise<number> {
  const config = await loadConfig()
  return withProcessManager(manager => start(config, manager))
}

process.exit(await runCommand(main))
