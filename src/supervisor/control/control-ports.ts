// The control ports: plain HTTP for health checks and status, read-only. Each answers for every label.
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import type { Log } from '../../core/log.ts'
import { securityHeaders } from '../../core/response-headers.ts'
import { answerRaw, type ParserError, parserError } from '../../listener/parser-errors.ts'
import { requestIdOf } from '../../listener/request-identity.ts'
import type { createCheckers } from './checkers.ts'
import { createControlListener } from './control-listener.ts'
import type { Document, Documents } from './documents.ts'
import type { Health } from './health.ts'

export interface ControlOptions {
  readonly config: Pick<Config, 'ports' | 'control'>
  readonly log: Log
  readonly checkers: ReturnType<typeof createCheckers>
  health(label: string): Health
  readonly documents: Documents
  /** Whether this label's control port accepts connections: in the mode `refuse` it does not. */
  isOpen(label: string): boolean
}

interface Answer extends Document {
  readonly status: number
}

const HEALTH = '/healthcheck/'
// Checks are short and few, whoever sends them.
const MAX_CONNECTIONS = 1000
const MAX_HEADER_BYTES = 16_384
const serverOptions = {
  requireHostHeader: false,
  headersTimeout: 10_000,
  requestTimeout: 10_000,
  maxHeaderSize: MAX_HEADER_BYTES,
}
const readOnly = 'a control port is read-only'
const allow = { Allow: 'GET, HEAD' }

/** Like those of the data ports, but not by name: what is unknown here is no 404. */
function failure(
  request: IncomingMessage,
  status: number,
  code: string,
  message: string,
  headers?: Document['headers'],
): Answer {
  const id = requestIdOf(request)
  return {
    status,
    body: { meta: { status, message, code, request_id: id } },
    headers: { 'Request-Id': id, ...headers },
  }
}

/** The path that was asked for, also of a URL with scheme and host, which every server is to take (RFC 9112, 3.2.2). */
function pathOf({ url = '' }: IncomingMessage): string {
  const [path = ''] = url.replace(/^https?:\/\/[^/?]*/i, '').split('?')
  return path || '/'
}

/** Plain IPv4, also where the socket is IPv6. */
function addressOf(request: IncomingMessage): string {
  return (request.socket.remoteAddress ?? 'unknown').replace(/^::ffff:/, '')
}

function send(request: IncomingMessage, response: ServerResponse, { status, body, headers }: Answer): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    ...securityHeaders,
    ...headers,
  })
  response.end(request.method === 'HEAD' ? undefined : text)
}

export function createControl(options: ControlOptions) {
  const { config, checkers } = options
  const labels = config.ports.map(port => port.label)

  function check(request: IncomingMessage, label: string): Answer {
    const { status, code, message } = options.health(label)
    const state = request.headers['x-haproxy-server-state']
    checkers.checked(label, {
      address: addressOf(request),
      seen: new Date().toISOString(),
      status,
      server_state: typeof state === 'string' ? state.slice(0, 256) : null,
    })
    return { status, body: { meta: { status, message, code } } }
  }

  async function show(request: IncomingMessage, document: Documents[string]): Promise<Answer> {
    try {
      return { status: 200, ...(await document()) }
    } catch (error) {
      return failure(request, 500, 'internal_error', String(error))
    }
  }

  function answer(request: IncomingMessage): Answer | Promise<Answer> {
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return failure(request, 405, 'method_not_allowed', readOnly, allow)
    const path = pathOf(request)
    const document = Object.hasOwn(options.documents, path) ? options.documents[path] : undefined
    if (document !== undefined) return show(request, document)
    const label = labels.find(one => path === HEALTH + one)
    if (label !== undefined) return check(request, label)
    // Not 404, which would turn a mistyped check into a silent drain.
    const known = labels.map(one => HEALTH + one).join(', ')
    return failure(request, 400, 'port_not_found', `there is no ${path}; the health checks are ${known}`)
  }

  const listeners = config.ports.map(({ label, port }) => {
    const server = http.createServer(serverOptions, async (request, response) =>
      send(request, response, await answer(request)),
    )
    server.maxConnections = MAX_CONNECTIONS
    server.on('checkExpectation', (request, response) => {
      response.shouldKeepAlive = false
      send(request, response, failure(request, 417, 'expectation_failed', 'nothing can be expected here'))
    })
    server.on('connect', (_request, socket) =>
      answerRaw(socket, new ApiError('method_not_allowed', readOnly, { headers: allow })),
    )
    server.on('clientError', (error: ParserError, socket) => {
      // A TCP connect is a check, too: whoever hangs up at once, or resets, is no error.
      if (socket.writableEnded) return
      if (!socket.writable || !(socket instanceof Socket) || socket.bytesRead === 0) socket.destroy()
      else answerRaw(socket, parserError(error, { urlBytes: MAX_HEADER_BYTES }))
    })
    return createControlListener({
      label,
      server,
      address: { host: config.control.host, port: port + config.control.offset },
      log: options.log,
      isWanted: () => options.isOpen(label),
    })
  })

  return {
    /**
     * Opens the control ports that should be open.
     * @throws FatalError where one cannot be opened
     */
    async open(): Promise<void> {
      await Promise.all(listeners.map(listener => listener.open()))
    },
    /**
     * Opens or closes the control port of a label as its mode wants it now.
     * @returns why it is still closed where it should be open; that is tried again
     */
    sync: async (label: string): Promise<string | undefined> =>
      listeners.find(listener => listener.label === label)?.sync(),
  }
}
