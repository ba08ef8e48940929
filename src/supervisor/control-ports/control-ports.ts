// The control ports: read-only HTTP servers for health checks and status. Every control port answers for every label.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Config, ConfigError } from '../../config/config.ts'
import { ApiError, errorMeta } from '../../core/api-error.ts'
import { type IsKnownHost, namedHost, unknownHost } from '../../core/known-hosts.ts'
import type { Log } from '../../core/log.ts'
import { securityHeaders } from '../../core/response-headers.ts'
import { canonical } from '../../listener/client-address.ts'
import { createConnections } from '../../listener/connections.ts'
import { requestIdOf } from '../../listener/request-identity.ts'
import { serveRequests } from '../../listener/serve-requests.ts'
import { createServer } from '../../listener/server.ts'
import type { SocketsByLabel } from '../inherited-sockets.ts'
import type { Maintenance } from '../maintenance.ts'
import { currentMoment } from '../port-states.ts'
import type { Checkers } from './checkers.ts'
import { createControlListener } from './control-listener.ts'
import type { Document, Documents } from './documents.ts'
import type { Health } from './health.ts'

interface ControlPortsOptions {
  readonly config: Pick<Config, 'ports' | 'control' | 'drain' | 'stateFile'>
  readonly log: Log
  readonly checkers: Checkers
  readonly isKnownHost: IsKnownHost
  health(label: string): Health
  readonly documents: Documents
  readonly maintenance: Maintenance
  /** Sockets from systemd by label. */
  readonly inherited: SocketsByLabel
}

interface ControlResponse extends Document {
  readonly status: number
}

const HEALTH = '/healthcheck/'
const LIVENESS = '/livez'
const READINESS = '/readyz'
// Health checks are short and few, so the limits and the times are low.
const limits = {
  urlBytes: 16_384,
  headerBytes: 16_384,
  headers: 100,
  connections: 1000,
  unreadBytes: 8_388_608,
  waitingBytes: 8_388_608,
}
const timeouts = { headersMs: 5000, requestMs: 5000, keepAliveMs: 10_000 }
const notAllowed = new ApiError('method_not_allowed', 'control ports are read-only; use GET or HEAD', {
  headers: { Allow: 'GET, HEAD' },
})
const notExpected = new ApiError(
  'expectation_failed',
  'the Expect header is not supported on control ports',
  { headers: { Connection: 'close' } },
)

const healthResponse = ({ status, message, code }: Health): ControlResponse => ({
  status,
  body: { meta: { status, message, code } },
})

/** For liveness probes: 200 while the supervisor answers at all, whatever the states of the ports. */
const alive: ControlResponse = {
  status: 200,
  body: { meta: { status: 200, message: 'the supervisor is running', code: 'alive' } },
}

/** Returns the path of the request target, also if that is in absolute form, which servers must accept (RFC 9112, 3.2.2). */
function pathOf({ url = '' }: IncomingMessage): string {
  const [path = ''] = url.replace(/^https?:\/\/[^/?]*/i, '').split('?')
  return path || '/'
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, body, headers }: ControlResponse,
): void {
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

/**
 * The queue of a socket that systemd holds accepts connections, whatever this process does.
 * @param mode how to name the mode to use
 */
const cannotRefuse = (label: string, mode = 'the mode 404'): string =>
  `the control port of ${label} has a socket from systemd, which cannot refuse connections: use ${mode}, or remove this port from the .socket unit`

export type ControlPorts = ReturnType<typeof createControlPorts>

export function createControlPorts(options: ControlPortsOptions) {
  const { config, checkers, log } = options
  const { labels } = options.maintenance

  /** For readiness probes: the answer of the first port that is not serving, or 200. Not a check by a proxy. */
  function readiness(): ControlResponse {
    const all: Health = { status: 200, code: 'serving', message: 'every port is serving' }
    return healthResponse(labels.map(options.health).find(({ status }) => status !== 200) ?? all)
  }

  function check(request: IncomingMessage, label: string): ControlResponse {
    const health = options.health(label)
    const state = request.headers['x-haproxy-server-state']
    const check = {
      address: canonical(request.socket.remoteAddress ?? '') ?? 'unknown',
      status: health.status,
      // Control characters would reach the terminal of an operator who reads the status.
      server_state: typeof state === 'string' ? state.slice(0, 256).replaceAll(/\p{Cc}/gu, '?') : null,
      maintenance: options.maintenance.startOf(label),
    }
    checkers.record(label, check, currentMoment())
    return healthResponse(health)
  }

  /** @throws ApiError, or what a document throws */
  async function respond(request: IncomingMessage): Promise<ControlResponse> {
    const { expect } = request.headers
    if (!options.isKnownHost(namedHost(request))) throw new ApiError('malformed_request', unknownHost)
    if (expect !== undefined && expect.toLowerCase() !== '100-continue') throw notExpected
    if (request.method !== 'GET' && request.method !== 'HEAD') throw notAllowed
    const path = pathOf(request)
    const document = options.documents[path]
    if (document !== undefined) return { status: 200, ...(await document()) }
    if (path === LIVENESS) return alive
    if (path === READINESS) return readiness()
    const label = labels.find(one => path === HEALTH + one)
    if (label !== undefined) return check(request, label)
    const known = [...labels.map(one => HEALTH + one), READINESS, LIVENESS].join(', ')
    throw new ApiError('port_not_found', `unknown path ${path}; the health checks are ${known}`)
  }

  /** Returns a response in the format of a data port's error response. */
  function failed(request: IncomingMessage, thrown: unknown): ControlResponse {
    const isKnown = thrown instanceof ApiError
    if (!isKnown) log.error({ reason: thrown, path: pathOf(request) }, 'internal_error')
    const error = isKnown ? thrown : new ApiError('internal_error', String(thrown))
    // Not 404: a load balancer would take a mistyped path for a drained port.
    const status = error.code === 'port_not_found' ? 400 : error.status
    const id = requestIdOf(request)
    return {
      status,
      body: { meta: { ...errorMeta(error, status), request_id: id } },
      headers: { 'Request-Id': id, ...error.headers },
    }
  }

  const listeners = config.ports.map(({ label, port }) => {
    const server = createServer({ config: { limits, timeouts } })
    const connections = createConnections(limits, () => {})
    server.on('connection', connections.add)
    serveRequests(server, connections, {
      listener: async (request, response) =>
        send(request, response, await respond(request).catch((error: unknown) => failed(request, error))),
      limits,
      connectNotAllowed: notAllowed,
    })
    return createControlListener({
      label,
      server,
      address: { host: config.control.host, port: port + config.control.offset },
      socket: options.inherited.get(label),
      log,
      shouldBeOpen: () => options.maintenance.get(label).mode !== 'refuse',
    })
  })

  return {
    /**
     * Opens the control ports that should be open.
     * @throws FatalError if one cannot be opened; ConfigError if one should refuse connections, but cannot
     */
    async open(): Promise<void> {
      for (const label of options.inherited.keys()) {
        // No command can change it before the start.
        if (options.maintenance.get(label).mode === 'refuse')
          throw new ConfigError([cannotRefuse(label, `"mode": "404" in ${config.stateFile}`)])
        if (config.drain.mode === 'refuse') throw new ConfigError([cannotRefuse(label)])
      }
      await Promise.all(listeners.map(listener => listener.open()))
    },
    /** Returns why a control port cannot refuse connections; undefined if it can. */
    whyNotRefuse: (label: string): string | undefined =>
      options.inherited.has(label) ? cannotRefuse(label) : undefined,
    /**
     * Opens or closes the control port of a label as its mode requires. A failure to open is retried.
     * @returns why the port is still closed although it should be open
     */
    sync: async (label: string): Promise<string | undefined> =>
      listeners.find(listener => listener.label === label)?.sync(),
  }
}
