// npm test: a real MySQL and a real Redis in a temporary folder, AVA with our arguments, and everything gone afterwards.
// TEST_WITHOUT_REDIS=1 leaves Redis out: the service then runs uncached.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
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
import { kitPrograms } from './support/config-tools.ts'
import { haproxyProgram } from './support/haproxy.ts'

const withRedis = process.env.TEST_WITHOUT_REDIS !== '1'
/** Tests of their own need these; the others do without. */
const tools: Program[] = [
  haproxyProgram,
  ...kitPrograms,
  { title: 'Chromium', names: ['chromium'], debianPackage: 'chromium', brewFormula: 'chromium' },
]
const ava = fileURLToPath(new URL('../node_modules/ava/entrypoints/cli.mjs', import.meta.url))

const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort())

/** Runs AVA; gives its exit code, 1 where it was ended by a signal. */
async function runAva(env: NodeJS.ProcessEnv): Promise<number> {
  const child = spawn(process.execPath, [ava, ...process.argv.slice(2)], { stdio: 'inherit', env })
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
