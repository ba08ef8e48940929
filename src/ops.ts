// Entry point of `npm run ops`: sends one operator's command to the control socket, prints the reply and maps it to an exit
// code for scripts. A terminal gets tables; a pipe, or `--json`, gets the reply as JSON.
import { userInfo } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { columnsOf, runCommand, serviceName, UsageError } from './cli/command-line.ts'
import { REPLY_TIMEOUT_MS, type Reply, readStatus, sendCommand } from './cli/operator/client.ts'
import { describePending, describeReply, describeWatch } from './cli/operator/reply-text.ts'
import { loadControlSocket } from './config/config.ts'
import { quoted } from './core/quoted.ts'
import { type CommandName, isCommandName } from './supervisor/command-names.ts'
import type { Status } from './supervisor/control-ports/status.ts'

const usage = `usage: npm run ops -- <command> [argument] [--json]

  drain <label>[:404|:refuse]   put a port into maintenance: its health check fails, but it still serves requests
  wait <label>                  wait until the draining port has had no connection for drain.quietMs and every checker
                                has noticed the maintenance, or until the drain deadline
  resume <label>                put a port back into service
  status                        show ports, connections, checkers, workers and Redis
  reload                        load new code and settings, one worker at a time; the first one serves beside the
                                old ones for reload.watchMs, and the reload ends if it does worse than they do
  reload-certificates           load new certificates for new connections
  log-level <level>             set the log level of the supervisor and all workers until the next start:
                                trace, debug, info, warn, …

  heap-snapshot <pid>           write the heap of a worker or the supervisor to var/diagnostics; the process stops meanwhile
  cpu-profile <pid>[:<seconds>] write what a worker or the supervisor spends its time on, for 10 seconds, to var/diagnostics

  --json                        print the reply as JSON; this is the default if the output is not a terminal

exit codes: 0 done, 1 rejected or done in part, 2 usage error, 3 ${serviceName} is not running, 4 no reply in time,
            78 invalid settings`

/** How often `wait` says what it waits for, and `reload` what it has seen of the first new worker. */
const PROGRESS_MS = 3000
/** The longest time-out: the watch of a reload can be as long. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1
// These commands reply when they are complete. If the service exits first, the wait ends at once.
const longTimeoutsMs: Readonly<Partial<Record<CommandName, number>>> = {
  wait: MAX_TIMEOUT_MS,
  reload: MAX_TIMEOUT_MS,
  'heap-snapshot': 10 * 60_000,
  'cpu-profile': 10 * 60_000,
}

function readCommandLine() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { json: { type: 'boolean', default: false } },
  })
  const [command, argument, ...rest] = positionals
  if (command === undefined) throw new UsageError()
  if (!isCommandName(command)) throw new UsageError(`unknown command ${quoted(command)}`)
  if (rest.length > 0) throw new UsageError(`${command} has more than one argument`)
  return { command, argument, json: values.json }
}
type CommandLine = ReturnType<typeof readCommandLine>

/** Returns the name of this user, or its number if it has no name, as in some containers. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}

/** Says every few seconds how far the command is, until the process ends. */
async function reportProgress(socketPath: string, by: string, describe: Progress): Promise<never> {
  for (;;) {
    await delay(PROGRESS_MS)
    const status = await readStatus(socketPath, by)
    const text = status && describe(status)
    if (text !== undefined) console.error(`${serviceName}: ${text}`)
  }
}

/** Returns how far a command is; undefined if there is nothing to say. */
type Progress = (status: Status) => string | undefined

/** Returns what says how far a command is; undefined for a command that replies at once. */
function progressOf({ command, argument = '' }: CommandLine): Progress | undefined {
  if (command === 'reload') return ({ watch }) => watch && describeWatch(watch)
  if (command !== 'wait') return undefined
  return ({ ports: { [argument]: port } }) => port && `${argument} waits for ${describePending(port)}`
}

/** Returns the reply as text for a terminal, or as JSON if it is that of another version. */
function replyText({ command, argument }: CommandLine, reply: Reply): string {
  const { stdout } = process
  const screen = { columns: columnsOf(stdout), hasColors: stdout.hasColors() }
  try {
    return describeReply(command, argument, reply, screen).join('\n')
  } catch {
    return JSON.stringify(reply, null, 2)
  }
}

function printReply(commandLine: CommandLine, reply: Reply): void {
  if (commandLine.json || !process.stdout.isTTY) console.log(JSON.stringify(reply, null, 2))
  else if ('error' in reply) console.error(`${serviceName}: ${reply.error}`)
  else console.log(replyText(commandLine, reply))
}

async function main(): Promise<number> {
  const commandLine = readCommandLine()
  const { command, argument } = commandLine
  const socketPath = await loadControlSocket()
  const by = userName()
  const progress = progressOf(commandLine)
  if (progress !== undefined) void reportProgress(socketPath, by, progress)
  const body = { argument: argument ?? null, by }
  const reply = await sendCommand(socketPath, command, body, longTimeoutsMs[command] ?? REPLY_TIMEOUT_MS)
  printReply(commandLine, reply)
  return 'error' in reply ? 1 : 0
}

process.exit(await runCommand(main, usage))
