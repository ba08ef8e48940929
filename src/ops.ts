// Entry point of `npm run ops`: runs one operator's command, prints its reply as JSON, and maps the reply to an exit code
// for scripts.
import { userInfo } from 'node:os'
import { runCommand, serviceName } from './cli/command-line.ts'
import { withProcessManager } from './cli/pm2/process-manager.ts'
import { type Outcome, trigger } from './cli/pm2/trigger.ts'
import { commandNames } from './supervisor/commands.ts'

const exitCodes = { done: 0, refused: 1, usage: 2, notRunning: 3, timeout: 4 } as const

const usage = `usage: npm run ops -- <command> [argument]

  drain <label>[:404|:refuse]   put a port into maintenance: its health check fails, requests are still served
  wait <label>                  wait until the draining port has no connections and every checker has seen the
                                maintenance, or until the drain deadline
  resume <label>                put a port back into service
  status                        show ports, connections, checkers, workers and Redis
  reload                        load new code and configuration, one worker at a time
  reload-certificates           load new certificates for new connections
  log-level <level>             set the log level of the supervisor and all workers until the next start:
                                trace, debug, info, warn, …

exit codes: 0 done, 1 refused, 2 usage error, 3 ${serviceName} is not running, 4 no reply in time`

const TIMEOUT_MS = 10_000
// These commands reply when they are complete. If the service exits first, the wait ends at once.
const longTimeoutsMs: Readonly<Record<string, number>> = { wait: 10 * 60_000, reload: 30 * 60_000 }

/** Adds the user's name to commands that change something, for the service's log. pm2 does not pass the name on. */
function withUser(command: string, argument: string | undefined): string | null {
  if (command === 'status' || command === 'wait') return argument ?? null
  const by = `by=${userInfo().username}`
  return argument === undefined ? by : `${argument} ${by}`
}

function report(outcome: Outcome): number {
  switch (outcome.is) {
    case 'reply':
      console.log(JSON.stringify(outcome.reply, null, 2))
      return 'error' in outcome.reply ? exitCodes.refused : exitCodes.done
    case 'not running':
      console.error(`${serviceName} is not running, or is starting or stopping: npm start`)
      return exitCodes.notRunning
    case 'timeout':
      console.error(`${serviceName} did not reply in time: npx pm2 logs ${serviceName}`)
      return exitCodes.timeout
  }
}

async function main(): Promise<number> {
  const [command = '', argument, ...rest] = process.argv.slice(2)
  if (!commandNames.some(name => name === command) || rest.length > 0) {
    console.error(usage)
    return exitCodes.usage
  }
  const timeoutMs = longTimeoutsMs[command] ?? TIMEOUT_MS
  return withProcessManager(async () =>
    report(await trigger(serviceName, command, withUser(command, argument), timeoutMs)),
  )
}

process.exit(await runCommand(main))
