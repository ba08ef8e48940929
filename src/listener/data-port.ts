// One data port of one worker: an HTTP or HTTPS listener that drains and closes without losing a request.
import type { IncomingMessage, RequestListener } from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { isDeepStrictEqual } from 'node:util'
import type { Config, DataPortConfig } from '../config/config.ts'
import { ApiError } from '../core/api-error.ts'
import type { SocketHandle } from '../core/listen.ts'
import {
  type DesiredPort,
  type ListenerState,
  NO_ROUTE,
  type PortReport,
  UNANSWERED_MS,
} from '../core/messages.ts'
import { createAcceptor } from './acceptor.ts'
import { type Arrivals, createArrivals } from './arrivals.ts'
import { clientAddress, createIsTrusted } from './client-address.ts'
import { type ConnectionLimits, createConnections } from './connections.ts'
import { createDrainSignals } from './drain-signals.ts'
import { requireProxyHeaders } from './proxied-connections.ts'
import type { RequestLog } from './request-log.ts'
import { hasAllHeaders, type RequestLimits } from './request-size.ts'
import { serveRequests } from './serve-requests.ts'
import { createServer, type ServerOptions, secureContext, type TlsSettings } from './server.ts'
import { createTraffic } from './traffic.ts'

declare module 'node:tls' {
  interface TLSSocket {
    /** The TCP socket of the connection. Internal to Node.js (20 to 26). */
    readonly _parent: Socket
  }
}

const SWEEP_MS = 50

/** A 405 must list the allowed methods (RFC 9110, 15.5.6). */
const connectNotAllowed = new ApiError(
  'method_not_allowed',
  'CONNECT is not supported: this server is not a proxy',
  { headers: { Allow: 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT' } },
)

export interface DataPortOptions extends ServerOptions {
  readonly port: DataPortConfig
  readonly config: Pick<Config, 'host' | 'timeouts' | 'drain' | 'proxies'> & {
    readonly limits: RequestLimits & ConnectionLimits
  }
  /** Returns a new handle of the socket that is bound to the port. */
  readonly requestSocket: () => Promise<SocketHandle>
  readonly listener: RequestListener
  readonly requestLog?: RequestLog | undefined
}

export type DataPort = ReturnType<typeof createDataPort>

export function createDataPort(options: DataPortOptions) {
  const { port, config, listener } = options
  const server = createServer(options)
  const traffic = createTraffic()
  const drainSignals = createDrainSignals(config.drain.delayMs)
  const isTrusted = createIsTrusted(config.proxies.trusted)
  /** Without some of the headers, the last one of them may not be that of the last proxy. */
  const clientOf = (peer: string | undefined, request?: IncomingMessage) => {
    const isReported = request !== undefined && hasAllHeaders(request, config.limits)
    return peer && clientAddress(peer, isReported ? request.headers : {}, isTrusted)
  }
  const connections = createConnections(config.limits, (response, status, durationMs) => {
    traffic.recordResponse(response.route, status, response.awaitsEvent ? undefined : durationMs)
    options.requestLog?.logResponse(port.label, response, status, durationMs)
  })
  const acceptor = createAcceptor(
    server,
    { host: config.host, port: port.port },
    `data port ${port.label}`,
    options.requestSocket,
  )
  let state: ListenerState = 'serving'
  let sinceMs = performance.now()
  /** Undefined while the port serves. */
  let arrivals: Arrivals | undefined
  let { tls } = options
  let sweeper: NodeJS.Timeout | undefined
  let resolveClosed = (): void => {}
  const closed = new Promise<void>(resolve => {
    resolveClosed = resolve
  })

  function sweep(): void {
    if (state === 'serving') return
    connections.closeIdle(sinceMs, config.drain.idleMs)
    if (state !== 'closing') return
    // A drain never cuts a request. Only a stop and the replacement of a worker have a deadline.
    if (performance.now() - sinceMs >= config.drain.deadlineMs) {
      acceptor.stop()
      connections.destroyAll()
    }
    if (connections.count() === 0 && !acceptor.isAccepting()) {
      clearInterval(sweeper)
      resolveClosed()
    }
  }

  function changeState(newState: ListenerState): void {
    state = newState
    sinceMs = performance.now()
    connections.closeAfterResponse(state !== 'serving')
    arrivals = state === 'serving' ? undefined : createArrivals(sinceMs)
    drainSignals.setState(state)
    clearInterval(sweeper)
    // What has arrived is read before the immediate runs: after a stall, connections that seem idle have requests.
    if (state !== 'serving') sweeper = setInterval(() => setImmediate(sweep), SWEEP_MS)
  }

  /** Returns the number of unanswered requests by route. */
  function unanswered(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { route = NO_ROUTE } of connections.unanswered(UNANSWERED_MS))
      counts[route] = (counts[route] ?? 0) + 1
    return counts
  }

  if (port.proxyProtocol === true)
    requireProxyHeaders(
      server,
      isTrusted,
      (socket, { source }) => connections.get(socket)?.headerRead(source),
      (socket, reason) => {
        // In a stop, workers open connections to their own port, and another worker can accept them after it has begun to drain.
        const isOwn = state !== 'serving' && socket.remoteAddress === socket.localAddress
        if (!isOwn) options.requestLog?.logRefusal(port.label, clientOf(socket.remoteAddress), reason)
      },
    )
  server.on('connection', (socket: Socket) => {
    if (!socket.destroyed) connections.add(socket)
  })
  // With a listener, Node.js does not destroy the inactive socket itself.
  server.on('timeout', (socket: Socket) => {
    if (connections.get(socket)?.isWorking()) return
    const { bytesRead } = socket
    // What has arrived is read before the immediate runs: after a stall, connections that seem inactive have requests.
    setImmediate(() => {
      if (socket.bytesRead === bytesRead) socket.destroy()
    })
  })
  // Until the end of the handshake, the connection is that of the TCP socket.
  server.on('secureConnection', (socket: TLSSocket) => connections.replace(socket._parent, socket))
  serveRequests(server, connections, {
    listener(request, response) {
      arrivals?.add({ address: request.socket.remoteAddress, atMs: performance.now() })
      Object.assign(response, drainSignals.current())
      listener(request, response)
    },
    limits: config.limits,
    connectNotAllowed,
    onArrival(response, peer) {
      response.client = clientOf(peer, response.req)
    },
    onRejected(socket, error, requestId, request) {
      // No request was processed.
      traffic.recordResponse(undefined, error.status, undefined)
      const client = clientOf(connections.get(socket)?.peer(), request)
      options.requestLog?.logRejection(port.label, client, error, requestId)
    },
  })

  return {
    label: port.label,
    /** @throws FatalError if the port cannot be opened */
    listen: acceptor.start,
    /**
     * Sets the state. `closing` is final: later calls are ignored.
     * @param options.maxActive the active connections beyond this number end with their next responses, and for a moment no new
     *   ones are accepted
     * @param options.emptiesQueue with `closing`, the connections that wait in the queue of the socket are served first
     */
    setState(
      newState: ListenerState,
      { maxActive, emptiesQueue }: Omit<DesiredPort, 'port' | 'state'> = {},
    ): void {
      if (state === 'closing') return
      if (newState !== state) changeState(newState)
      if (maxActive !== undefined) connections.keepActive(maxActive)
      if (newState === 'closing' && emptiesQueue === true) acceptor.stopWhenEmpty()
      else if (newState === 'closing') acceptor.stop()
      else if (maxActive !== undefined) acceptor.pause()
    },
    /** Uses another certificate, or other ticket keys, for new connections. The supervisor has validated them. */
    useTls(settings: TlsSettings): void {
      if (!(server instanceof https.Server) || isDeepStrictEqual(settings, tls)) return
      tls = settings
      server.setSecureContext(secureContext(settings))
    },
    report: (): PortReport => ({
      state,
      connections: connections.count(),
      active: connections.activeCount(),
      inFlight: connections.inFlight(),
      unanswered: unanswered(),
      quietMs: connections.quietMs(),
      arriving: arrivals?.report(performance.now()),
    }),
    /** The responses since the port was created. */
    traffic,
    /** Resolves when the port is closing and its last connection has ended. */
    closed,
  }
}
