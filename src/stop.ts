// Entry point of `npm stop`: stops the service gracefully, then its private servers. Their data remain.
import { parseArgs } from 'node:util'
import { print, runCommand, serviceName } from './cli/command-line.ts'
import { findApp, withPm2 } from './cli/pm2/process-manager.ts'
import { stopEverything } from './cli/pm2/service.ts'
import { loadControlSocket } from './config/config.ts'
import { root } from './config/root.ts'
import { isServed } from './supervisor/socket-file.ts'

/** Whether a service of this folder runs, also without pm2. If the settings cannot be read, it counts as not running. */
const isServing = (): Promise<boolean> =>
  loadControlSocket()
    .then(isServed)
    .catch(() => false)

async function stop(): Promise<number> {
  const app = await findApp(serviceName)
  if (app !== undefined && `${app.folder}/` !== root)
    throw new Error(`the service runs from ${app.folder}, not from this folder: run npm stop there`)
  if (app?.isStopping)
    throw new Error(
      'the service is already stopping, and waits for requests in flight: run npm stop again once it has stopped',
    )
  // Its private servers would be stopped while it runs.
  if (!app?.isRunning && (await isServing()))
    throw new Error(
      'the service runs, but not under this pm2: run npm stop with the PM2_HOME of its start, or send SIGTERM to its process',
    )
  if (app?.isRunning) print('stopping: waiting for requests in flight')
  print((await stopEverything()) ? 'stopped' : 'not running')
  return 0
}

async function main(): Promise<number> {
  parseArgs({ options: {} })
  return withPm2(stop)
}

const usage = `usage: npm stop

  stops the service and its private servers after requests in flight have finished; the data stays in var/`

process.exit(await runCommand(main, usage))
