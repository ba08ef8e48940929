// One data port of one worker: a listener, http or https, that can be drained and closed without losing a request.
import { randomUUID } from 'node:crypto'
import http, { type RequestListener } from 'node:http'
import https from 'node:https'
import net, { Socket } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { Config, DataPortConfig } from '../config/config.ts'
import type { ApiError } from '../core/api-error.ts'
import { listen } from '../core/listen.ts'
import type { KeyPair, ListenerState, PortReport, TrafficTotals } from '../core/messages.ts'
import { type Connections, createConnections } from './connections.ts'
import { answerOverload, answerRaw, noProxy, type ParserError, parserError } from './parser-errors.ts'
import { requestIdOf } from './request-id.ts'
import type { RequestLog } from './request-log.ts'
import { createTraffic } from './traffic.ts'

const SWEEP_MS = 50
const TIMEOUT_CHECK_MS = 500
const UNREAD_CHECK_MS = 1000
// The application says what is too large, exactly and kindly; the parser only bounds the memory.
const PARSER_SLACK_BYTES = 65_536

export interface DataPortOptions {
  readonly port: DataPortConfig
  readonly config: Pick<Config, 'host' | 'limits' | 'timeouts' | 'drain'>
  /** The socket is this worker's own, beside those of others. */
  readonly reusePort?: boolean
  readonly listener: RequestListener
  /** For https. */
  readonly keyPair?: KeyPair | undefined
  /** 48 bytes, the same in every worker. */
  readonly ticketKeys: Buffer
  readonly requestLog?: RequestLog | undefined
}

export interface DataPort {
  readonly label: string
  /** @throws FatalError where the port cannot be had */
  listen(): Promise<void>
  /** There is no way back from `closing`. */
  setState(state: ListenerState): void
  /** New connections get this certificate; it has been checked before. */
  useKeyPair(keyPair: KeyPair): void
  report(): PortReport
  /** What it has answered since the beginning. */
  traffic(): TrafficTotals
  /** Resolves once the port is closing and its last connection is gone. */
  readonly closed: Promise<void>
}

// With forward secrecy and authenticated encryption only (https://wiki.mozilla.org/Security/Server_Side_TLS, intermediate).
const ciphers = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  ...['ECDSA', 'RSA'].flatMap(key =>
    ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].map(cipher => `ECDHE-${key}-${cipher}`),
  ),
].join(':')

const secureContext = ({ certificate, key }: KeyPair) =>
  ({ cert: certificate, key, minVersion: 'TLSv1.2', ciphers }) as const

function createServer({ port, config, keyPair, ticketKeys }: DataPortOptions): http.Server | https.Server {
  const { limits, timeouts } = config
  const options = {
    maxHeaderSize: limits.urlBytes + limits.headerBytes + PARSER_SLACK_BYTES,
    headersTimeout: timeouts.headersMs,
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: timeouts.keepAliveMs,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    // The application answers a request without a Host, in JSON.
    requireHostHeader: false,
    noDelay: true,
  }
  if (port.protocol === 'http') return http.createServer(options)
  if (keyPair === undefined) throw new Error(`no certificate for ${port.label}`)
  return https.createServer({
    ...options,
    ...secureContext(keyPair),
    ticketKeys,
    handshakeTimeout: timeouts.headersMs,
  })
}

/** A connection is a bare socket until its handshake is done, and then the TLS socket around it. */
function trackHandshakes(server: https.Server, connections: Connections): void {
  const bare = new Map<string, Socket>()
  const peer = (socket: Socket) => `${socket.remoteAddress} ${socket.remotePort}`
  server.on('connection', (socket: Socket) => {
    const key = peer(socket)
    bare.set(key, socket)
    socket.once('close', () => bare.delete(key))
  })
  server.on('secureConnection', socket => {
    const within = bare.get(peer(socket))
    if (within !== undefined) connections.forget(within)
    connections.opened(socket)
  })
}

/** @param options.listener answers the requests */
export function createDataPort(options: DataPortOptions): DataPort {
  const { port, config, listener, reusePort = false } = options
  const server = createServer(options)
  // Who neither sends nor reads for so long is gone; who could still be told that the time is up is told first.
  server.timeout = config.timeouts.requestMs + 4 * TIMEOUT_CHECK_MS
  // The application counts them, too: the parser leaves the others out in silence.
  server.maxHeadersCount = config.limits.headers + 1
  const traffic = createTraffic()
  const connections = createConnections(config.limits, (response, status, durationMs) => {
    traffic.answered(status, durationMs)
    options.requestLog?.answered(port.label, response, status, durationMs)
  })
  let state: ListenerState = 'serving'
  let sinceMs = performance.now()
  let { keyPair } = options
  let sweeper: NodeJS.Timeout | undefined
  let resolveClosed = (): void => {}
  const closed = new Promise<void>(resolve => {
    resolveClosed = resolve
  })

  function sweep(): void {
    connections.closeIdle({ sinceMs, idleMs: config.drain.idleMs, deadlineMs: config.drain.deadlineMs })
    if (state === 'closing' && connections.count() === 0) {
      clearInterval(sweeper)
      resolveClosed()
    }
  }

  setInterval(connections.closeSlowReaders, UNREAD_CHECK_MS).unref()
  server.on('connection', (socket: Socket) => connections.opened(socket))
  if (server instanceof https.Server) trackHandshakes(server, connections)
  const serve: RequestListener = (request, response) =>
    connections.began(request.socket, response, {
      serve: () => listener(request, response),
      turnAway: () => answerOverload(response),
    })
  server.on('request', serve)
  // Whoever reads the body says `100 Continue`, once nothing speaks against it; the application knows no other expectation.
  server.on('checkContinue', serve)
  server.on('checkExpectation', serve)
  const refuse = (socket: Socket, error: ApiError, requestId: string): void =>
    connections.refused(socket, () => {
      traffic.refused(error.status)
      options.requestLog?.refused(port.label, error, requestId)
      answerRaw(socket, error, requestId)
    })
  server.on('clientError', (error: ParserError, socket) => {
    if (socket instanceof Socket) refuse(socket, parserError(error, config.limits), randomUUID())
    else socket.destroy()
  })
  server.on('connect', request => refuse(request.socket, noProxy, requestIdOf(request)))

  return {
    label: port.label,
    listen: () =>
      listen(server, { host: config.host, port: port.port, reusePort }, `data port ${port.label}`, 0),
    setState(wanted) {
      if (wanted === state || state === 'closing') return
      state = wanted
      sinceMs = performance.now()
      connections.closeAfterAnswer(state !== 'serving')
      clearInterval(sweeper)
      if (state !== 'serving') sweeper = setInterval(sweep, SWEEP_MS)
      // http.Server's own close() would end idle connections at once, in the face of a request on its way.
      if (state === 'closing') net.Server.prototype.close.call(server)
    },
    useKeyPair(wanted) {
      if (!(server instanceof https.Server) || isDeepStrictEqual(wanted, keyPair)) return
      keyPair = wanted
      server.setSecureContext({ ...secureContext(wanted), ticketKeys: options.ticketKeys })
    },
    report: () => ({ state, connections: connections.count(), inFlight: connections.inFlight() }),
    traffic: traffic.totals,
    closed,
  }
}
