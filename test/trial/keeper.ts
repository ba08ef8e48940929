// The background process of `npm run cluster`. It starts the trial cluster, starts again what ends, and answers the other
// commands on a Unix socket until one of them stops it.
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { print, runCommand } from '../../src/cli/command-line.ts'
import { exitCodes } from '../../src/core/exit-codes.ts'
import { listenOnSocketFile } from '../../src/supervisor/socket-file.ts'
import { base, socketPath } from './ask-keeper.ts'
import { describeParts, describeTrial } from './describe.ts'
import type { Report } from './launch.ts'
import type { Part } from './part.ts'
import { startTrial, type Trial } from './trial.ts'

const RESTART_MS = 10_000

const { values } = parseArgs({
  options: { port: { type: 'string' }, mysql: { type: 'boolean', default: false } },
})
const interruption = new AbortController()
const { signal } = interruption
const interrupted = once(signal, 'abort')
let trial: Trial | undefined

/** Tells the process that has started this one, while it waits for the trial. */
const report = (message: Report) => process.connected && process.send?.(message)

const log = (line: string) => print(`${new Date().toISOString()} ${line}`)

/** Starts a part again after a pause. */
async function restart(part: Part): Promise<void> {
  log(`${part.name} has ended and starts again in ${RESTART_MS / 1000} s`)
  try {
    await delay(RESTART_MS, undefined, { signal })
    await part.stop('SIGKILL')
    await part.start()
    log(`${part.name} runs again`)
  } catch (error) {
    if (!signal.aborted) log(`${part.name} does not start: ${error instanceof Error ? error.message : error}`)
  }
}

/** Starts a part again whenever it has ended, until the trial is stopped. */
async function keepRunning(part: Part): Promise<void> {
  while (!signal.aborted) {
    await Promise.race([part.exited(), interrupted])
    if (!signal.aborted) await restart(part)
  }
}

/** Called before each step of the start. @throws AbortError if the start was interrupted */
function begin(step: string): void {
  signal.throwIfAborted()
  log(step)
  report({ step })
}

const server = createServer(socket => {
  socket.on('error', () => {})
  socket.once('data', data => {
    // The connection of `stop` closes when this process exits.
    if (`${data}` === 'stop') interruption.abort()
    else socket.end(trial === undefined ? '  starting' : describeParts(trial))
  })
})

async function main(): Promise<number> {
  try {
    await listenOnSocketFile(server, await socketPath())
    trial = await startTrial({ base, firstPort: Number(values.port), mysql: values.mysql, print: begin })
  } catch (error) {
    report({ failed: error instanceof Error ? error.message : String(error) })
    throw error
  }
  report({ ready: describeTrial(trial, RESTART_MS / 1000) })
  await Promise.all(trial.parts.map(keepRunning))
  await trial.stop()
  return exitCodes.stopped
}

for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => interruption.abort())
// The process that has started this one ends before the trial runs.
process.on('disconnect', () => trial === undefined && interruption.abort())
process.exit(await runCommand(main))
