// npm test [-- AVA arguments]: starts a private MySQL and Redis in a temporary folder, generates a certificate for all
// services, runs AVA, and stops and deletes them. With TEST_WITHOUT_REDIS=1 it does not start Redis, and the service runs
// without a cache.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { prepareMysql } from '../src/cli/private-servers/mysql.ts'
import {
  installMissing,
  mysqlProgram,
  type Program,
  redisProgram,
} from '../src/cli/private-servers/programs.ts'
import { prepareRedis } from '../src/cli/private-servers/redis.ts'
import { type PrivateServer, runServer } from '../src/cli/private-servers/server.ts'
import { selfSigned } from '../src/supervisor/certificates.ts'
import { configTools } from './support/config-tools.ts'
import { galeraProgram, haproxyProgram, mariadbProgram } from './support/programs.ts'

const withRedis = process.env.TEST_WITHOUT_REDIS !== '1'
/** Programs that only some tests need; without them, only those tests fail or report that they were not run. */
const tools: Program[] = [
  haproxyProgram,
  ...configTools,
  mariadbProgram,
  galeraProgram,
  { title: 'curl', names: ['curl'], debianPackage: 'curl', brewFormula: 'curl' },
  { title: 'Chromium', names: ['chromium'], debianPackage: 'chromium', brewFormula: 'chromium' },
]
const ava = fileURLToPath(new URL('../node_modules/ava/entrypoints/cli.mjs', import.meta.url))

/** Number of test files at once. A file often waits for processes: up to four cores run six of them. */
const concurrency = Math.max(6, Math.ceil(1.5 * availableParallelism()))

const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort())

/** Runs AVA on the compiled tests. The arguments name their sources. @returns its exit code, or 1 if a signal ended it */
async function runAva(env: NodeJS.ProcessEnv): Promise<number> {
  const patterns = process.argv
    .slice(2)
    .map(argument => argument.replace(/^test\/(.*)\.ts$/, 'var/tests/test/$1.js'))
  const args = [ava, '--config=test/ava.config.js', `--concurrency=${concurrency}`, ...patterns]
  const child = spawn(process.execPath, args, { stdio: 'inherit', env })
  const end = () => child.kill('SIGTERM')
  interrupted.signal.addEventListener('abort', end)
  const [code] = await once(child, 'exit')
  return code ?? 1
}

async function main(): Promise<number> {
  await installMissing(withRedis ? [mysqlProgram, redisProgram] : [mysqlProgram], console.log)
  await installMissing(tools, console.log).catch((error: Error) => console.log(error.message))
  const base = await mkdtemp(join(tmpdir(), 'users-api-test-'))
  const running: Awaited<ReturnType<typeof runServer>>[] = []
  const start = async (server: PrivateServer): Promise<string> => {
    running.push(await runServer(server))
    return server.url
  }
  try {
    const { TEST_REDIS_URL: _, ...env } = process.env
    env.TEST_DATABASE_URL = await start(await prepareMysql('', { base, durable: false, print: console.log }))
    if (withRedis) env.TEST_REDIS_URL = await start(await prepareRedis({ base }))
    env.TEST_CERTIFICATE = join(base, 'self-signed.pem')
    await selfSigned(env.TEST_CERTIFICATE)
    return interrupted.signal.aborted ? 1 : await runAva(env)
  } finally {
    await Promise.all(running.map(server => server.stop()))
    await rm(base, { recursive: true, force: true })
  }
}

process.exitCode = await main().catch(error => {
  console.error(error instanceof Error ? error.message : error)
  return 1
})
