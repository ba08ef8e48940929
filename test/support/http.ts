// An HTTP client for the tests: JSON over keep-alive connections, and raw bytes for malformed requests.
import http from 'node:http'
import https from 'node:https'
import { connect } from './raw.ts'

export interface Fault {
  field?: string
  parameter?: string
  code: string
  message: string
}

export interface Meta {
  status: number
  message?: string
  code?: string
  request_id?: string
  errors?: Fault[]
  total_records?: number
  start_index?: number
  records_per_page?: number
  links?: { next?: string; prev?: string }
  created?: number
  updated?: number
  deleted?: number
  failed?: number
}

/** The body of any response: a resource, a collection, a batch or an error. */
export interface Body {
  id?: number
  first_name?: string
  last_name?: string
  name?: string
  description?: string
  users?: Body[]
  groups?: Body[]
  roles?: Body[]
  meta: Meta
}

/** A complete response. */
export interface Answer {
  status: number
  headers: http.IncomingHttpHeaders
  text: string
  /** The text parsed as JSON. @throws SyntaxError if it is not JSON */
  readonly body: Body
}

export type Client = ReturnType<typeof createClient>

function answerOf(status: number, headers: http.IncomingHttpHeaders, text: string): Answer {
  return {
    status,
    headers,
    text,
    get body(): Body {
      return JSON.parse(text)
    },
  }
}

/**
 * Creates a client of the service at `url`. It accepts the self-signed certificates of the tests.
 * @param keepAlive whether it reuses its connections
 */
export function createClient(url: string, keepAlive = true) {
  const { protocol, hostname, port } = new URL(url)
  const agent =
    protocol === 'https:'
      ? new https.Agent({ keepAlive, rejectUnauthorized: false })
      : new http.Agent({ keepAlive })
  const { request } = protocol === 'https:' ? https : http

  /** Sends `body` unchanged. `path` must be percent-encoded ASCII. */
  function send(
    method: string,
    path: string,
    headers: http.OutgoingHttpHeaders = {},
    body?: string | Buffer,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const outgoing = request({ agent, hostname, port, method, path, headers }, incoming => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
        incoming.on('error', reject)
        incoming.on('end', () =>
          resolve(answerOf(incoming.statusCode ?? 0, incoming.headers, Buffer.concat(chunks).toString())),
        )
      })
      outgoing.on('error', reject)
      outgoing.end(body)
    })
  }

  /** Sends `body` as JSON. A string is sent unchanged, as JSON text. */
  function sendJson(
    method: string,
    path: string,
    body: unknown,
    headers?: http.OutgoingHttpHeaders,
  ): Promise<Answer> {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const contentHeaders = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    return send(method, path, { ...contentHeaders, ...headers }, text)
  }

  return {
    url,
    send,
    get: (path: string, headers?: http.OutgoingHttpHeaders) => send('GET', path, headers),
    delete: (path: string, headers?: http.OutgoingHttpHeaders) => send('DELETE', path, headers),
    post: (path: string, body: unknown, headers?: http.OutgoingHttpHeaders) =>
      sendJson('POST', path, body, headers),
    put: (path: string, body: unknown, headers?: http.OutgoingHttpHeaders) =>
      sendJson('PUT', path, body, headers),
    patch: (path: string, body: unknown, headers?: http.OutgoingHttpHeaders) =>
      sendJson('PATCH', path, body, headers),

    /** Creates one resource and returns its id. @throws Error if the service rejects it */
    async create(collection: string, fields: object): Promise<number> {
      const answer = await sendJson('POST', collection, fields)
      const { id } = answer.body
      if (answer.status !== 200 || id === undefined) throw new Error(`not created: ${answer.text}`)
      return id
    },

    /** Returns the number of records of the collection that match the filters in its query. */
    async count(collection: string): Promise<number> {
      const answer = await send('GET', collection)
      const total = answer.body.meta.total_records
      if (answer.status !== 200 || total === undefined) throw new Error(`not counted: ${answer.text}`)
      return total
    },

    close: () => agent.destroy(),
  }
}

/** Returns the first final response in `text`, or undefined. Skips interim responses such as 100. */
function parseResponse(text: string): Answer | undefined {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const [statusLine = '', ...lines] = text.slice(0, end).split('\r\n')
  const status = Number(statusLine.split(' ')[1])
  if (status < 200) return parseResponse(text.slice(end + 4))
  const headers = Object.fromEntries(
    lines.map(line => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  return answerOf(status, headers, text.slice(end + 4))
}

/**
 * Writes `parts` to a new connection and reads until the connection is closed.
 * @param then `end` half-closes the connection after the last part, `wait` leaves closing to the server
 * @returns all received text, and its first final response, undefined if the server sent none
 */
export async function sendRaw(
  url: string,
  parts: string | Buffer | (string | Buffer)[],
  then: 'end' | 'wait' = 'wait',
): Promise<{ text: string; answer: Answer | undefined }> {
  const { socket, closed, text } = await connect(Number(new URL(url).port))
  let isSilent = false
  socket.setTimeout(20_000, () => {
    isSilent = text() === ''
    socket.destroy()
  })
  for (const part of [parts].flat()) socket.write(part)
  if (then === 'end') socket.end()
  await closed
  if (isSilent) throw new Error('the server sent nothing and did not close the connection for 20 s')
  return { text: text(), answer: parseResponse(text()) }
}
