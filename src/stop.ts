// Entry of `npm stop`: ends the service, then its private servers, all gently. The data stay.
import { runCommand, say, serviceName } from './command-line.ts'
import { root } from './config.ts'
import { type ProcessManager, withProcessManager } from './pm2/process-manager.ts'
import { stopEverything } from './pm2/service.ts'

async function stop(manager: ProcessManager): Promise<number> {
  const folder = await manager.folderOf(serviceName)
  if (folder !== undefined && `${folder}/` !== root)
    throw new Error(`it runs from ${folder}, not from here: stop it there`)
  if (folder !== undefined) say('stopping: requests are finished first')
  say((await stopEverything(manager)) ? 'it has stopped' : 'it is not running')
  return 0
}

process.exit(await runCommand(() => withProcessManager(stop)))
