// The messages between the supervisor and its workers. Workers send reports and ask for sockets; the supervisor sends the
// complete desired state, sockets, and requests for a diagnosis. Received messages are validated before use. After a reload the
// two can be of different versions: unknown fields are ignored, and a field that a later version adds must be optional.
import * as z from 'zod'
import { logLevels } from '../config/schema.ts'
import { diagnosisKinds } from './diagnosis.ts'

const count = z.number().min(0)

/**
 * The state of a listener. `draining`: it still accepts and serves connections, but closes each one after its
 * next response or when it is idle. `closing`: the same, but it accepts no new
 * connections, except those that it removes from the queue of a socket that closes (`emptiesQueue`).
 */
const listenerState = z.enum(['serving', 'draining', 'closing'])
export type ListenerState = z.output<typeof listenerState>

/** A certificate chain and its key, as PEM. */
const keyPair = z.object({ certificate: z.string(), key: z.string() })
export type KeyPair = z.output<typeof keyPair>

/** Upper bounds of the latency histogram's buckets, in milliseconds. A last bucket counts slower requests. */
export const latencyBoundsMs = [0.5, 1, 2, 3, 5, 7.5, 10, 15, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000]

/** Stands for the route of a request that matches none, and of rejected input. */
export const NO_ROUTE = 'none'

/** After this time without the beginning of a response, a request counts as unanswered. */
export const UNANSWERED_MS = 3000

/** The responses of a port, or of one of its routes, since its worker started. */
const trafficTotals = z.object({
  /** Counts by status class, `2xx` to `5xx`, and `aborted` if the client disconnected before the response. */
  responses: z.record(z.string(), count),
  /** Counts by the buckets of `latencyBoundsMs`. */
  latency: z.array(count),
  latencySumMs: count,
})
export type TrafficTotals = z.output<typeof trafficTotals>

const portReport = z.object({
  state: listenerState,
  connections: count,
  /** Connections in use: kept alive, and with another request in the last seconds. */
  active: count,
  inFlight: count,
  /** Requests whose response has not begun after UNANSWERED_MS, by route. */
  unanswered: z.record(z.string(), count),
  /** For how long the port has had no connection, in milliseconds. */
  quietMs: count,
  /** Set unless the port serves: the requests that still arrive a second, and the addresses that send most of them. */
  arriving: z.object({ perSecond: count, addresses: z.array(z.string()) }).optional(),
})
export type PortReport = z.output<typeof portReport>

/** The state of Redis in a worker. `none`: REDIS_URL is not set; `connecting`: no result yet. */
export const cacheStates = ['away', 'connecting', 'connected', 'none'] as const
export type CacheState = (typeof cacheStates)[number]

const heartbeat = z.object({
  type: z.literal('heartbeat'),
  /** The revision of the desired state that was applied last; 0 before the first. */
  appliedRevision: z.int(),
  /** Reports by port label; empty until the worker listens. */
  ports: z.record(z.string(), portReport),
  /** Totals by port label. */
  traffic: z.record(z.string(), trafficTotals),
  /** Totals by port label and route. The routes are path patterns, such as `/v1/users/:user_id`, or NO_ROUTE. */
  routes: z.record(z.string(), z.record(z.string(), trafficTotals)),
  /** Maximum event loop delay in milliseconds since the last heartbeat. */
  lagMs: count,
  /** 99th percentile of the event loop delay. */
  lagP99Ms: count,
  /** The cache of includes; counts since the worker started. */
  cache: z.object({ hits: count, misses: count, state: z.enum(cacheStates) }),
  /** The database connections; `waiting` is the number of pending acquires, `max` the size of the pool. */
  pool: z.object({ used: count, free: count, waiting: count, max: count }),
  /**
   * The change feed: events that wait for a number, seconds that the oldest one has waited, and requests that wait for an
   * event. Missing if the feed is off.
   */
  changes: z.object({ waiting: count, waitingSeconds: count, readers: count }).optional(),
  rssBytes: count,
  /** For how long the database has been unreachable, in milliseconds; missing if it is not. */
  databaseDownMs: count.optional(),
})
export type Heartbeat = z.output<typeof heartbeat>

/** The public keys of a JWT issuer, as a worker has read them. */
const issuerKeys = z.object({
  /** A JSON Web Key Set. */
  text: z.string(),
  /** When the reading began, in milliseconds of the clock of `process.hrtime`, which is the same in all processes. */
  beganMs: count,
})
export type IssuerKeys = z.output<typeof issuerKeys>

const workerMessage = z.discriminatedUnion('type', [
  /** The worker can receive messages. Messages sent before this one are lost. */
  z.object({ type: z.literal('hello') }),
  /** The worker needs the socket of a data port in order to accept connections. */
  z.object({ type: z.literal('socket-request'), label: z.string() }),
  /** Every data port accepts connections. */
  z.object({ type: z.literal('listening') }),
  heartbeat,
  /** The worker has read the keys of the JWT issuer at `source`, the URL in its settings. */
  z.object({ type: z.literal('issuer-keys'), source: z.string(), keys: issuerKeys }),
  /** The worker has written the file that a `diagnose` message asked for, or could not. */
  z.object({ type: z.literal('diagnosed'), file: z.string(), error: z.string().optional() }),
  /** The worker exits because of an error that the operator can fix. */
  z.object({ type: z.literal('fatal'), exitCode: z.int(), reason: z.string() }),
])
/** A message from a worker to its supervisor. */
export type WorkerMessage = z.output<typeof workerMessage>

const desiredPort = z.object({
  port: z.int(),
  /** Whether connections begin with a PROXY header. Earlier versions of the supervisor do not tell. */
  proxyProtocol: z.boolean().optional(),
  state: listenerState,
  /**
   * Set if the worker has more than its fair share of the active connections: it accepts no new ones for a moment, and
   * closes those beyond this number after their next response.
   */
  maxActive: z.int().optional(),
  /** Set with `closing` while the service stops: no other process will accept the connections that wait. */
  emptiesQueue: z.boolean().optional(),
})
export type DesiredPort = z.output<typeof desiredPort>

const desiredState = z.object({
  type: z.literal('desired-state'),
  /** Increases with every state. Heartbeats acknowledge it as `appliedRevision`. */
  revision: z.int(),
  /** Ports by label. A worker whose ports are all `closing` exits when its last connection has closed. */
  ports: z.record(z.string(), desiredPort),
  /** Certificates and keys of the https ports, by label. */
  keyPairs: z.record(z.string(), keyPair),
  /** TLS session ticket keys in base64. All workers share them, so any worker can resume a session. */
  ticketKeys: z.string(),
  /** The keys of JWT issuers that workers have read last, by their URL. A new worker needs no issuer to begin with. */
  issuerKeys: z.record(z.string(), issuerKeys).optional(),
  logLevel: z.enum(logLevels),
  /** The interval of the heartbeats. The supervisor kills a worker that sends none for long, by the settings of its own start. */
  beatMs: count.optional(),
  /** They decide which `Host` headers the worker answers: those of the start, as the sockets keep their addresses. */
  host: z.string().optional(),
  hosts: z.array(z.string()).optional(),
})
/** The state that a worker applies and acknowledges with a heartbeat. Applying it is idempotent. */
export type DesiredState = z.output<typeof desiredState>

/** A message from the supervisor to a worker. */
const supervisorMessage = z.discriminatedUnion('type', [
  desiredState,
  /** Comes with the socket that the worker has requested. */
  z.object({ type: z.literal('socket'), label: z.string() }),
  /** Asks the worker for a file that shows its inside. */
  z.object({ type: z.literal('diagnose'), kind: z.enum(diagnosisKinds), file: z.string(), seconds: count }),
])

/** @returns undefined if `message` is not a valid worker message of this version */
export const parseWorkerMessage = (message: unknown) => workerMessage.safeParse(message).data

/** @returns undefined if `message` is not a valid message to a worker of this version */
export const parseSupervisorMessage = (message: unknown) => supervisorMessage.safeParse(message).data
