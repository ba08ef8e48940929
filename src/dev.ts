// Entry of `npm run dev`: the service from source, started again at each change. Where no URL is given, private servers
// under var/dev come and go with it, beside those of `npm start`.
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
const ended = new AbortController()

/** @param run starts a server. @returns the URLs of those that were started, as settings of the environment */
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

/** The first time; a fault in the source may be mended meanwhile. */
function tellWhenHealthy(config: Config, service: ChildProcess): void {
  const assertRunning = (): void => {
    if (service.exitCode !== null || service.signalCode !== null) throw new Error('it has ended')
  }
  waitUntilHealthy(config, Infinity, assertRunning).then(
    () => print(`it runs, and again at each change; Ctrl-C ends it\n${describeUrls(config)}`),
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
    if (ended.signal.aborted) return 0
    const service = spawn(
      'env',
      [...variables, 'tsx', 'watch', '--clear-screen=false', 'src/supervisor.ts'],
      {
        cwd: root,
        stdio: 'inherit',
        // Out of reach of a Ctrl-C at the terminal: tsx passes on what it gets, and two signals would be one to hurry.
        detached: true,
      },
    )
    ended.signal.addEventListener('abort', () => service.kill('SIGTERM'))
    const exited = once(service, 'exit')
    tellWhenHealthy(config, service)
    const [code] = await exited
    return ended.signal.aborted ? 0 : (code ?? 1)
  } finally {
    await Promise.all(running.map(server => server.stop()))
  }
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => ended.abort())
process.exit(await runCommand(main))
