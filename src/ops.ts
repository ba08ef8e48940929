// Entry of `npm run ops`: one operator's command, its reply as JSON, and an exit code that scripts can trust.
import { userInfo } from 'node:os'
import { runCommand, serviceName } from './cli/command-line.ts'
import { withProcessManager } from './cli/pm2/process-manager.ts'
import { type Outcome, trigger } from './cli/pm2/trigger.ts'
import { commandNames } from './supervisor/commands.ts'

const exitCodes = { done: 0, refused: 1, usage: 2, notRunning: 3, timeout: 4 } as const

const usage = `usage: npm run ops -- <command> [argument]

  drain <label>[:404|:refuse]   take a port into maintenance: its check fails, its requests go on
  wait <label>                  until the draining port has no connection and every checker knows, or the deadline
  resume <label>                back into service
  status                        ports, connections, checkers, workers, Redis
  reload                        new code and configuration, one worker at a time
  reload-certificates           new certificates for new connections
  log-level <level>             of the supervisor and all workers, until the next start: trace, debug, info, warn, …

exit codes: 0 done, 1 refused, 2 usage, 3 ${serviceName} does not run, 4 no reply in time`

const TIMEOUT_MS = 10_000
// These reply when they are done; should the service end before that, nobody waits any longer.
const longTimeoutsMs: Readonly<Record<string, number>> = { wait: 10 * 60_000, reload: 30 * 60_000 }

/** What changes something is logged with who typed it; pm2 does not print. */
function withName(command: string, argument: string | undefined): string | null {
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
      console.error(`${serviceName} does not run, or is just starting or ending: npm start`)
      return exitCodes.notRunning
    case 'time-out':
      console.error(`${serviceName} has not replied in time: npx pm2 logs ${serviceName}`)
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
    report(await trigger(serviceName, command, withName(command, argument), timeoutMs)),
  )
}

process.exit(await runCommand(main))
