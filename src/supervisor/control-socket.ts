// The control socket: operators' commands as HTTP requests on a Unix socket. Node.js does not tell which user has connected
// (SO_PEERCRED), so the mode of the socket is the authentication, and an operator's name is what the request says.
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import * as z from 'zod'
import { keepHalfOpen } from '../listener/server.ts'
import { commandNames, isCommandName } from './command-names.ts'
import type { Commands } from './commands.ts'
import { listenOnSocketFile } from './socket-file.ts'

const MAX_BODY_BYTES = 16_384
/** The name of an operator who does not say one. */
const UNNAMED = 'control socket'
const FOLDER = '/commands/'
const statuses = { done: 200, rejected: 400, failed: 500 } as const

const serverOptions = { requireHostHeader: false, requestTimeout: 10_000 }

const commandBody = z.strictObject({
  argument: z.string().nullish(),
  by: z
    .string()
    .regex(/^[^\p{Cc}]{1,100}$/u)
    .default(UNNAMED),
})

interface SocketResponse {
  readonly status: number
  readonly body: object
  readonly headers?: Readonly<Record<string, string>>
}

const failure = (status: number, error: string, headers = {}): SocketResponse => ({
  status,
  body: { error },
  headers,
})

/** Returns the body, or undefined if it is too large. Then the rest is read and dropped, so that the response arrives. */
async function readBody(request: AsyncIterable<Buffer>): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    bytes += chunk.length
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk)
  }
  return bytes <= MAX_BODY_BYTES ? Buffer.concat(chunks).toString() : undefined
}

/** Parses the body of a command. An empty body is a command without an argument. */
function parseBody(text: string): z.output<typeof commandBody> | undefined {
  try {
    return commandBody.safeParse(text === '' ? {} : JSON.parse(text)).data
  } catch {
    return undefined
  }
}

function send(response: ServerResponse, { status, body, headers }: SocketResponse): void {
  const text = `${JSON.stringify(body)}\n`
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
    Connection: 'close',
    ...headers,
  })
  response.end(text)
}

export function createControlSocket(path: string, commands: Commands) {
  async function respond(request: IncomingMessage): Promise<SocketResponse> {
    const { method, url = '' } = request
    const command = url.startsWith(FOLDER) ? url.slice(FOLDER.length) : ''
    if (!isCommandName(command))
      return failure(404, `unknown path ${url}; use POST ${FOLDER}<command> with ${commandNames.join(', ')}`)
    if (method !== 'POST') return failure(405, `use POST ${url}`, { Allow: 'POST' })
    const text = await readBody(request)
    if (text === undefined) return failure(413, `the body must have at most ${MAX_BODY_BYTES} bytes`)
    const body = parseBody(text)
    if (body === undefined)
      return failure(
        400,
        'the body must be empty or JSON: {"argument": string or null, "by": name of 1 to 100 characters}, both optional',
      )
    const { outcome, reply } = await commands.run(command, body.argument ?? null, body.by)
    return { status: statuses[outcome], body: reply }
  }

  const server = http.createServer(serverOptions, async (request, response) => {
    try {
      send(response, await respond(request))
    } catch {
      // The operator disconnected in the middle of the request.
      response.destroy()
    }
  })
  keepHalfOpen(server)

  return {
    /** @throws FatalError if the socket cannot be opened */
    open: () => listenOnSocketFile(server, path),
    /** Removes the socket's file before it returns. */
    close: () => server.close(),
  }
}
