// Entry point of `npm stop`: stops the service gracefully, then its private servers. Their data remain.
import { print, runCommand, serviceName } from './cli/command-line.ts'
import { type ProcessManager, withProcessManager } from './cli/pm2/process-manager.ts'
import { stopEverything } from './cli/pm2/service.ts'
import { root } from './config/root.ts'

async function stop(manager: ProcessManager): Promise<number> {
  const app = await manager.find(serviceName)
  if (app !== undefined && `${app.folder}/` !== root)
    throw new Error(`the service runs from ${app.folder}, not from this folder: run npm stop there`)
  if (app?.isRunning) print('stopping: waiting for requests in flight')
  print((await stopEverything(manager)) ? 'stopped' : 'not running')
  return 0
}

process.exit(await runCommand(() => withProcessManager(stop)))
