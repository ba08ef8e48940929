// Entry of `npm stop`: ends the service, then its private servers, all gently. The data stay.
import { print, runCommand, serviceName } from './cli/command-line.ts'
import { type ProcessManager, withProcessManager } from './cli/pm2/process-manager.ts'
import { stopEverything } from './cli/pm2/service.ts'
import { root } from './config/root.ts'

async function stop(manager: ProcessManager): Promise<number> {
  const app = await manager.find(serviceName)
  if (app !== undefined && `${app.folder}/` !== root)
    throw new Error(`it runs from ${app.folder}, not from here: stop it there`)
  if (app?.isRunning) print('stopping: requests are finished first')
  print((await stopEverything(manager)) ? 'it has stopped' : 'it is not running')
  return 0
}

process.exit(await runCommand(() => withProcessManager(stop)))
