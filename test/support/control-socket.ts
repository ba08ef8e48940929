// Requests to the control socket of a service, and an operator who sends commands through it.
import http from 'node:http'
import { text } from 'node:stream/consumers'
import type { Reply } from './operator.ts'

export interface SocketAnswer {
  status: number
  headers: http.IncomingHttpHeaders
  reply: Reply
}

/** Sends a request. @throws Error if the connection fails or the response is not JSON */
export async function sendToSocket(
  socketPath: string,
  path: string,
  body = '',
  method = 'POST',
): Promise<SocketAnswer> {
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const request = http.request({ socketPath, path, method, agent: false }, resolve)
    request.on('error', reject)
    request.end(body)
  })
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    reply: JSON.parse(await text(response)),
  }
}

/** An operator like that of operator.ts, but without pm2. */
export function createSocketOperator(socketPath: string) {
  return {
    async run(command: string, argument?: string): Promise<Reply> {
      const { reply } = await sendToSocket(socketPath, `/commands/${command}`, JSON.stringify({ argument }))
      return reply
    },
  }
}
