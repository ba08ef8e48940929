// What the supervisor and its workers say to each other: facts go up, the desired state goes down as a whole.
// Whatever arrives is unknown until a guard has read it.
import { z } from 'zod'
import { logLevels } from '../config/schema.ts'

const count = z.number().min(0)

/**
 * What a listener does. `draining`: it serves on, and lets go of connections after one answer or when idle.
 * `closing`: it lets go likewise and accepts no new ones.
 */
const listenerState = z.enum(['serving', 'draining', 'closing'])
export type ListenerState = z.output<typeof listenerState>

/** A certificate chain and its key, as PEM. */
const keyPair = z.strictObject({ certificate: z.string(), key: z.string() })
export type KeyPair = z.output<typeof keyPair>

/** The upper bounds of the latency histogram, in milliseconds; a last bucket holds whatever took longer. */
export const latencyBoundsMs = [0.5, 1, 2, 3, 5, 7.5, 10, 15, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000]

/** What a port has answered since its worker began. */
const trafficTotals = z.strictObject({
  /** By class of status, `2xx` to `5xx`, and `aborted` where the client went away. */
  responses: z.record(z.string(), count),
  /** How many took so long, by the buckets of `latencyBoundsMs`. */
  latency: z.array(count),
  latencySumMs: count,
})
export type TrafficTotals = z.output<typeof trafficTotals>

const portReport = z.strictObject({ state: listenerState, connections: count, inFlight: count })
export type PortReport = z.output<typeof portReport>

/** Redis, as a worker knows it. `none`: there is no REDIS_URL; `connecting`: nobody knows yet. */
export const cacheStates = ['away', 'connecting', 'connected', 'none'] as const
export type CacheState = (typeof cacheStates)[number]

const heartbeat = z.strictObject({
  type: z.literal('heartbeat'),
  /** The number of the message that was appliedRevision last; 0 before the first. */
  appliedRevision: z.int(),
  /** By label; empty until the worker listens. */
  ports: z.record(z.string(), portReport),
  /** By label, too. */
  traffic: z.record(z.string(), trafficTotals),
  /** The longest that the event loop kept anyone waiting since the last heartbeat. */
  lagMs: count,
  lagP99Ms: count,
  /** Of the cache of includes; the counts are since the worker began. */
  cache: z.strictObject({ hits: count, misses: count, state: z.enum(cacheStates) }),
  /** The database's connections; `waiting` are requests for one, `max` how many there can be. */
  pool: z.strictObject({ used: count, free: count, waiting: count, max: count }),
  rssBytes: count,
  /** As `Date.now()`; missing while the database answers. */
  databaseDownSinceMs: count.optional(),
})
export type Heartbeat = z.output<typeof heartbeat>

const workerMessage = z.discriminatedUnion('type', [
  /** The worker hears now: what was sent before is lost. */
  z.strictObject({ type: z.literal('hello') }),
  /** Every data port accepts connections. */
  z.strictObject({ type: z.literal('listening') }),
  heartbeat,
  /** The worker ends, for a reason that a user can mend. */
  z.strictObject({ type: z.literal('fatal'), exitCode: z.int(), reason: z.string() }),
])
/** What a worker tells its supervisor. */
export type WorkerMessage = z.output<typeof workerMessage>

const desiredState = z.strictObject({
  type: z.literal('desired-state'),
  /** Later ones have greater ones: so a heartbeat says which it has heard of. */
  revision: z.int(),
  /** By label. A worker whose ports are all `closing` ends when the last connection is gone. */
  ports: z.record(z.string(), z.strictObject({ port: z.int(), state: listenerState })),
  /** Of the https ports, by label. */
  keyPairs: z.record(z.string(), keyPair),
  /** Shared by all workers, base64, so that a TLS session that one began can be resumed by any. */
  ticketKeys: z.string(),
  logLevel: z.enum(logLevels),
})
/** What the supervisor wants of a worker, answered with a heartbeat; repeating it changes nothing. */
export type DesiredState = z.output<typeof desiredState>

/** @returns undefined for what no worker of this version would say */
export function parseWorkerMessage(message: unknown): WorkerMessage | undefined {
  return workerMessage.safeParse(message).data
}

/** @returns undefined for what no supervisor of this version would say */
export function parseDesiredState(message: unknown): DesiredState | undefined {
  return desiredState.safeParse(message).data
}
