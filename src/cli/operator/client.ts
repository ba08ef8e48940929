// Sends an operator's command to the control socket and waits for the reply.
import http from 'node:http'
import { text } from 'node:stream/consumers'
import * as z from 'zod'
import { hasCode } from '../../core/error-reason.ts'
import { exitCodes, FatalError } from '../../core/exit-codes.ts'
import { type Status, statusSchema } from '../../supervisor/control-ports/status.ts'

/** For commands that reply at once. On a loaded machine, this can take seconds. */
export const REPLY_TIMEOUT_MS = 10_000

const replySchema = z.looseObject({})
export type Reply = z.output<typeof replySchema>

/** The codes of errors that mean that no process listens, or that it exited. */
const notRunning = ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE']

async function post(socketPath: string, path: string, body: object, signal: AbortSignal): Promise<string> {
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const request = http.request({ socketPath, path, method: 'POST', agent: false, signal }, resolve)
    request.on('error', reject)
    request.end(JSON.stringify(body))
  })
  return text(response)
}

/**
 * Runs a command.
 * @param timeoutMs milliseconds to wait for the reply
 * @throws FatalError if the service is not running, or does not reply in time; Error if this user may not use the socket, or
 *   if the reply is not JSON
 */
export async function sendCommand(
  socketPath: string,
  command: string,
  body: { readonly argument: string | null; readonly by: string },
  timeoutMs: number,
): Promise<Reply> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    return replySchema.parse(JSON.parse(await post(socketPath, `/commands/${command}`, body, signal)))
  } catch (error) {
    if (signal.aborted)
      throw new FatalError(
        exitCodes.noReply,
        'the service did not reply in time: its log may show the reason',
      )
    if (hasCode(error, ...notRunning))
      throw new FatalError(
        exitCodes.notRunning,
        `the service is not running, or is starting or stopping: no process answers on ${socketPath}`,
      )
    if (hasCode(error, 'EACCES', 'EPERM'))
      throw new Error(`no permission to use ${socketPath}: run this as the user that runs the service`)
    throw error
  }
}

/** Returns the status of the service; undefined if it does not run, does not reply in time, or is of another version. */
export async function readStatus(socketPath: string, by: string): Promise<Status | undefined> {
  const body = { argument: null, by }
  const reply = await sendCommand(socketPath, 'status', body, REPLY_TIMEOUT_MS).catch(() => undefined)
  return statusSchema.safeParse(reply).data
}
