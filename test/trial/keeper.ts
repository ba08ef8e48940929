// The background process of `npm run cluster`. It starts the trial cluster, starts again what ends, and answers the other
// commands on a Unix socket until one of them stops it.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { socketFolder } from '../../src/cli/private-servers/folders.ts'
import { listenOnSocketFile } from '../../src/supervisor/socket-file.ts'
import { describeParts, describeTrial } from './describe.ts'
import type { Part } from './part.ts'
import { startTrial, type Trial, type TrialOptions } from './trial.ts'

type Command = 'status' | 'stop'

const POLL_MS = 500
const RESTART_MS = 10_000

const socketPath = async (base: string): Promise<string> => join(await socketFolder(base), 'trial.sock')

/**
 * Sends a command to the keeper of the trial in `base`.
 * @returns its reply, for `stop` after everything has stopped; undefined if there is no keeper
 */
export async function sendToKeeper(base: string, command: Command): Promise<string | undefined> {
  const socket = connect(await socketPath(base))
  try {
    await once(socket, 'connect')
    socket.write(command)
    let reply = ''
    for await (const chunk of socket.setEncoding('utf8')) reply += chunk
    return reply
  } catch {
    return undefined
  } finally {
    socket.destroy()
  }
}

/** Starts a part again after a pause. */
async function restart(part: Part, print: (line: string) => void, signal: AbortSignal): Promise<void> {
  print(`${part.name} has ended and starts again in ${RESTART_MS / 1000} s`)
  try {
    await delay(RESTART_MS, undefined, { signal })
    await part.stop('SIGKILL')
    await part.start()
    print(`${part.name} runs again`)
  } catch (error) {
    if (!signal.aborted)
      print(`${part.name} does not start: ${error instanceof Error ? error.message : error}`)
  }
}

/** Starts parts again that have ended, until `signal` aborts. */
async function watch({ parts }: Trial, print: (line: string) => void, signal: AbortSignal): Promise<void> {
  const restarts = new Map<Part, Promise<void>>()
  while (!signal.aborted) {
    for (const part of parts)
      if (part.pid() === undefined && !restarts.has(part))
        restarts.set(
          part,
          restart(part, print, signal).finally(() => restarts.delete(part)),
        )
    await delay(POLL_MS, undefined, { signal }).catch(() => {})
  }
  await Promise.all(restarts.values())
}

/**
 * Starts the trial and keeps it running until `interruption` aborts, which the command `stop` also causes. Then it stops
 * everything.
 * @param onReady called with a description when everything runs
 * @throws Error if the trial does not start
 */
export async function keepTrial(
  options: TrialOptions,
  interruption: AbortController,
  onReady: (description: string) => void,
): Promise<void> {
  const { print } = options
  const { signal } = interruption
  let trial: Trial | undefined
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', data => {
      // The connection of `stop` closes when this process exits.
      if (`${data}` === 'stop') interruption.abort()
      else socket.end(trial === undefined ? '  starting' : describeParts(trial))
    })
  })
  await listenOnSocketFile(server, await socketPath(options.base))
  trial = await startTrial({
    ...options,
    print(line) {
      signal.throwIfAborted()
      print(line)
    },
  })
  onReady(describeTrial(trial, RESTART_MS / 1000))
  await watch(trial, print, signal)
  await trial.stop()
}
