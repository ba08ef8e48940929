// A Redis cache for values that the database can produce again. A Redis failure counts as a cache miss.
import type { Config } from '../config/config.ts'
import { reasonOf } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import type { CacheState } from '../core/messages.ts'
import { afterFailure, attempt, type Breaker, closedBreaker, isOpen } from './breaker.ts'
import { readKeys, writeEntries } from './client.ts'
import { connect } from './connect.ts'

export interface Cache {
  /** Returns one value per key, in order; undefined for a missing key and if Redis does not reply in time. */
  read(keys: readonly string[]): Promise<(string | undefined)[]>
  /** Stores values of at most 64 KiB in the background. */
  write(entries: readonly (readonly [key: string, value: string])[]): void
  /** Returns the number of hits and misses since the cache was created, and the state of Redis. */
  report(): { hits: number; misses: number; state: CacheState }
  close(): void
}

const noCache: Cache = {
  read: keys => Promise.resolve(keys.map(() => undefined)),
  write: () => {},
  report: () => ({ hits: 0, misses: 0, state: 'none' }),
  close: () => {},
}

/** Larger values are not stored: many of them at once would stall the event loop of a reader, and Redis. */
const MAX_VALUE_BYTES = 65_536
/** Minimum time between two reactions to rejected writes. */
const REJECTED_PAUSE_MS = 10_000

/**
 * Extracts the value from the stored text. Each stored text begins with its key, so a reply that belongs to
 * another key is detected and treated as a miss. So is a value with more characters than the bytes of any stored one.
 */
function valueFor(key: string, stored: unknown): string | undefined {
  if (typeof stored !== 'string' || !stored.startsWith(key)) return undefined
  return stored.length <= key.length + MAX_VALUE_BYTES ? stored.slice(key.length) : undefined
}

/** If no node of a Redis Cluster can be used, the error of the last one says why. */
const causeOf = (error: Error): Error =>
  'lastNodeError' in error && error.lastNodeError instanceof Error ? error.lastNodeError : error

/** @param settings.url one URL for each host; null disables the cache */
export function createCache(settings: Config['cache'], log: Log): Cache {
  const { url, ttlSeconds, timeoutMs } = settings
  if (url === null) return noCache
  const redis = connect({ url, timeoutMs })
  let closed = false
  let breaker: Breaker = closedBreaker
  const counts = { hits: 0, misses: 0 }
  const isUsable = () => redis.status === 'ready' && !isOpen(breaker)
  /** Undefined until the first connection attempt has a result. */
  let loggedUsable: boolean | undefined
  let loggedReason: string | undefined
  /**
   * Logs the state if it has changed.
   * @param reason why Redis may be unavailable
   * @param isNews whether to log the reason also if Redis was unavailable before, for another one
   */
  function logState(reason?: string, isNews = false): void {
    const isLater = isNews && !isUsable() && reason !== loggedReason
    if (closed || (isUsable() === loggedUsable && !isLater)) return
    loggedUsable = isUsable()
    loggedReason = reason
    if (loggedUsable) log.info('cache connected')
    else log.warn({ reason }, 'cache unavailable, reading from the database')
  }
  redis.on('ready', () => {
    // The failures were those of the connection before, perhaps to another server.
    breaker = closedBreaker
    logState()
  })
  redis.on('error', (error: Error) => {
    const cause = causeOf(error)
    const reason = reasonOf(cause)
    // A Redis Cluster also reports errors of single nodes while it is ready.
    log.debug({ reason }, 'cache error')
    // A later reason is logged only if an operator must act: Redis can be reached again, but rejects the password.
    logState(reason, cause.name === 'ReplyError')
  })
  redis.on('close', () => logState('connection closed'))

  let rejectedAtMs = Number.NEGATIVE_INFINITY
  /** Handles a write that Redis answered with an error: reads would succeed, but find nothing new. */
  function onRejected({ message }: Error): void {
    if (performance.now() - rejectedAtMs < REJECTED_PAUSE_MS) return
    rejectedAtMs = performance.now()
    log.warn({ reason: message }, 'cache rejects writes')
    // The connection is to a master that has become a replica. Its address may lead to the new master.
    if (message.startsWith('READONLY')) redis.disconnect(true)
  }

  async function writeAvailable(entries: readonly (readonly [string, string])[]): Promise<void> {
    const stored = entries.map(([key, value]) => [key, key + value] as const)
    const errors = await writeEntries(redis, stored, ttlSeconds)
    const rejection = errors.find(({ name }) => name === 'ReplyError')
    if (rejection !== undefined) onRejected(rejection)
    if (errors[0] !== undefined) log.debug({ reason: errors[0].message }, 'cache write failed')
  }

  async function readAvailable(keys: readonly string[]): Promise<(string | undefined)[]> {
    try {
      const values = await readKeys(redis, keys, timeoutMs)
      if (breaker.failures > 0 && values.some(value => value !== undefined)) {
        breaker = closedBreaker
        logState()
      }
      return keys.map((key, index) => valueFor(key, values[index]))
    } catch (error) {
      breaker = afterFailure(breaker, performance.now())
      const reason = reasonOf(error)
      log.debug({ reason }, 'cache read failed')
      logState(reason)
      return keys.map(() => undefined)
    }
  }

  async function readIfAllowed(keys: readonly string[]): Promise<(string | undefined)[]> {
    const allowed = redis.status === 'ready' ? attempt(breaker, performance.now()) : undefined
    if (allowed === undefined) return keys.map(() => undefined)
    breaker = allowed
    const values = readAvailable(keys)
    // An attempt with an open breaker is only a probe: the request does not wait for its result.
    return isOpen(allowed) ? keys.map(() => undefined) : values
  }

  return {
    async read(keys) {
      const values = await readIfAllowed(keys)
      const misses = values.filter(value => value === undefined).length
      counts.misses += misses
      counts.hits += values.length - misses
      return values
    },
    write(entries) {
      if (!isUsable()) return
      const small = entries.filter(([, value]) => Buffer.byteLength(value) <= MAX_VALUE_BYTES)
      writeAvailable(small).catch(error => log.debug({ reason: reasonOf(error) }, 'cache write failed'))
    },
    report() {
      const state = loggedUsable === undefined ? 'connecting' : isUsable() ? 'connected' : 'away'
      return { ...counts, state }
    },
    close() {
      closed = true
      redis.disconnect()
    },
  }
}
