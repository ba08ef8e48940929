// Entry point of `npm run dev`: runs the service from source and restarts it at each change. For each URL missing in the
// configuration, it runs a private server in var/dev, separate from those of `npm start`.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { print, runCommand } from './cli/command-line.ts'
import { assertPortsFree, migrateWhenUp } from './cli/preflight.ts'
import { assertWritable } from './cli/private-servers/folders.ts'
import { prepareMysql } from './cli/private-servers/mysql.ts'
import { installMissing, mysqlProgram, redisProgram } from './cli/private-servers/programs.ts'
import { prepareRedis } from './cli/private-servers/redis.ts'
import { type PrivateServer, runServer } from './cli/private-servers/server.ts'
import { describeUrls } from './cli/urls.ts'
import { waitUntilHealthy } from './cli/wait-until-healthy.ts'
import { type Config, loadConfig } from './config/config.ts'
import { root } from './config/root.ts'

const DATABASE_TIMEOUT_MS = 30_000

const base = join(root, 'var', 'dev')
const interruption = new AbortController()

/**
 * Starts a private server for each URL missing in the configuration.
 * @param run starts one server and returns its URL
 * @returns the URLs as arguments of `env`
 */
async function startServers(
  { database, cache }: Config,
  run: (server: PrivateServer) => Promise<string>,
): Promise<string[]> {
  const missing = [database.url === null ? mysqlProgram : [], cache.url === null ? redisProgram : []].flat()
  await installMissing(missing, print)
  const redis = cache.url === null ? [`REDIS_URL=${await run(await prepareRedis({ base }))}`] : []
  if (database.url !== null) return redis
  const url = await run(await prepareMysql('users_api', { base, durable: false, print }))
  await migrateWhenUp(url, DATABASE_TIMEOUT_MS, print)
  return [...redis, `DATABASE_URL=${url}`]
}

/**
 * Prints the URLs when the service is healthy for the first time. It waits without a limit: the source can have
 * errors.
 */
function printWhenHealthy(config: Config, service: ChildProcess): void {
  const assertRunning = (): void => {
    if (service.exitCode !== null || service.signalCode !== null) throw new Error('the service exited')
  }
  waitUntilHealthy(config, Infinity, assertRunning).then(
    () => print(`running, restarts at each change; Ctrl-C stops it\n${describeUrls(config)}`),
    () => {},
  )
}

async function main(): Promise<number> {
  const running: { stop(): Promise<void> }[] = []
  try {
    const config = await loadConfig()
    await assertPortsFree(config)
    await assertWritable(base)
    const variables = await startServers(config, async server => {
      print(`starting ${server.title}`)
      running.push(await runServer(server))
      return server.url
    })
    if (interruption.signal.aborted) return 0
    const service = spawn(
      'env',
      [...variables, 'tsx', 'watch', '--clear-screen=false', 'src/supervisor.ts'],
      {
        cwd: root,
        stdio: 'inherit',
        // In its own process group, so that a Ctrl-C in the terminal does not signal the supervisor directly: tsx
        // forwards its signal too, and a second signal makes the supervisor skip the drain wait.
        detached: true,
      },
    )
    interruption.signal.addEventListener('abort', () => service.kill('SIGTERM'))
    const exited = once(service, 'exit')
    printWhenHealthy(config, service)
    const [code] = await exited
    return interruption.signal.aborted ? 0 : (code ?? 1)
  } finally {
    await Promise.all(running.map(server => server.stop()))
  }
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interruption.abort())
process.exit(await runCommand(main))
