// Entry point of `npm run dev`: runs the service from source and restarts it at each change. For each URL missing in the
// settings, it runs a private server in var/dev, separate from those of `npm start`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { print, runCommand } from './cli/command-line.ts'
import { assertPortsFree, migrateWhenUp } from './cli/preflight.ts'
import { assertWritable } from './cli/private-servers/folders.ts'
import { startMissingServers } from './cli/private-servers/missing-servers.ts'
import { runServer } from './cli/private-servers/server.ts'
import { describeUrls } from './cli/urls.ts'
import { loadConfig } from './config/config.ts'
import { environmentWith } from './config/environment.ts'
import { root } from './config/root.ts'

const base = join(root, 'var', 'dev')
const interruption = new AbortController()

async function main(): Promise<number> {
  parseArgs({ options: {} })
  const running: { stop(): Promise<void> }[] = []
  try {
    const config = await loadConfig()
    await assertPortsFree(config)
    await assertWritable(base)
    const env = await startMissingServers(config, { base, durable: false, print }, async (_, server) => {
      running.push(await runServer(server))
    })
    if (env.DATABASE_URL !== undefined) await migrateWhenUp(env.DATABASE_URL, print)
    if (interruption.signal.aborted) return 0
    print(`starting the service, which restarts at each change; Ctrl-C stops it\n${describeUrls(config)}`)
    const service = spawn('tsx', ['watch', '--clear-screen=false', 'src/supervisor.ts'], {
      cwd: root,
      env: environmentWith(env),
      stdio: 'inherit',
      // In its own process group, so that a Ctrl-C in the terminal does not signal the supervisor directly: tsx
      // forwards its signal too, and a second signal makes the supervisor skip the drain wait.
      detached: true,
    })
    interruption.signal.addEventListener('abort', () => service.kill('SIGTERM'))
    const [code]: unknown[] = await once(service, 'exit')
    if (interruption.signal.aborted) return 0
    return typeof code === 'number' ? code : 1
  } finally {
    await Promise.all(running.map(server => server.stop()))
  }
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interruption.abort())

const usage = `usage: npm run dev

  runs the service from source and restarts it at each change; without DATABASE_URL and REDIS_URL, with a private database
  and Redis in var/dev`

process.exit(await runCommand(main, usage))
