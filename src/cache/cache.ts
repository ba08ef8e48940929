// A Redis cache for values that the database can produce again. A Redis failure counts as a cache miss.
import { Cluster, Redis } from 'ioredis'
import type { Config } from '../config/config.ts'
import { reasonOf } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import type { CacheState } from '../core/messages.ts'
import { afterFailure, attempt, type Breaker, closedBreaker, isOpen } from './breaker.ts'

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

const MAX_RECONNECT_MS = 2000
/** Larger values are not stored: many of them at once would stall the event loop of a reader, and Redis. */
const MAX_VALUE_BYTES = 65_536
const breakerSettings = { failureThreshold: 3, pauseMs: 1000 }

function connect({ url, timeoutMs }: Config['cache'] & { url: string[] }): Redis | Cluster {
  const options = {
    commandTimeout: timeoutMs,
    connectTimeout: 10 * timeoutMs,
    // ioredis reconnects if a connection receives no data for this long.
    socketTimeout: 2 * timeoutMs,
    // While Redis is disconnected, commands fail at once and the database is queried.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (attempt: number) => Math.min(MAX_RECONNECT_MS, 50 * 2 ** attempt),
  }
  const [first = '', ...others] = url
  if (others.length > 0)
    return new Cluster(url, { enableAutoPipelining: true, enableOfflineQueue: false, redisOptions: options })
  if (first.startsWith('redis+unix:')) return new Redis(new URL(first).pathname, options)
  return new Redis(first, options)
}

/**
 * Extracts the value from the stored text. Each stored text begins with its key, so a reply that belongs to
 * another key is detected and treated as a miss.
 */
function valueFor(key: string, stored: unknown): string | undefined {
  return typeof stored === 'string' && stored.startsWith(key) ? stored.slice(key.length) : undefined
}

/** @param settings.url one URL per node; several URLs are a cluster; null disables the cache */
export function createCache(settings: Config['cache'], log: Log): Cache {
  const { url, ttlSeconds } = settings
  if (url === null) return noCache
  const redis = connect({ ...settings, url })
  let closed = false
  /** Undefined until the first connection attempt has a result. */
  let available: boolean | undefined
  const counts = { hits: 0, misses: 0 }
  redis.on('ready', () => {
    if (available !== true) log.info('cache connected')
    available = true
  })
  const setUnavailable = (reason: string) => {
    if (available !== false && !closed) log.warn({ reason }, 'cache unavailable, reading from the database')
    available = false
  }
  redis.on('error', error => setUnavailable(reasonOf(error)))
  redis.on('close', () => setUnavailable('connection closed'))

  // The keys of one MGET or one explicit pipeline must be on the same cluster node. In a cluster, ioredis
  // groups single commands into one pipeline per node instead.
  const readMany = async (keys: readonly string[]) =>
    redis instanceof Cluster ? Promise.all(keys.map(key => redis.get(key))) : redis.mget([...keys])

  async function writeMany(entries: readonly (readonly [string, string])[]): Promise<void> {
    const target = redis instanceof Cluster ? redis : redis.pipeline()
    const written = entries.map(([key, value]) => target.set(key, key + value, 'EX', ttlSeconds))
    await (target instanceof Cluster ? Promise.all(written) : target.exec())
  }

  let breaker: Breaker = closedBreaker
  function setBreaker(next: Breaker, reason: string): void {
    const wasOpen = isOpen(breaker, breakerSettings)
    const opens = isOpen(next, breakerSettings)
    breaker = next
    if (wasOpen !== opens)
      log.warn(
        { reason },
        opens ? 'cache circuit breaker open, reading from the database' : 'cache circuit breaker closed',
      )
  }

  async function readAvailable(keys: readonly string[]): Promise<(string | undefined)[]> {
    try {
      const stored = await readMany(keys)
      if (!Array.isArray(stored) || stored.length !== keys.length) throw new Error('unexpected reply to MGET')
      if (breaker.failures > 0) setBreaker(closedBreaker, 'Redis replied')
      return keys.map((key, index) => valueFor(key, stored[index]))
    } catch (error) {
      setBreaker(afterFailure(breaker, breakerSettings, performance.now()), String(error))
      log.debug({ reason: String(error) }, 'cache read failed')
      return keys.map(() => undefined)
    }
  }

  async function readIfAllowed(keys: readonly string[]): Promise<(string | undefined)[]> {
    const allowed = available ? attempt(breaker, breakerSettings, performance.now()) : undefined
    if (allowed === undefined) return keys.map(() => undefined)
    breaker = allowed
    const values = readAvailable(keys)
    // An attempt with an open breaker is only a probe: the request does not wait for its result.
    return isOpen(allowed, breakerSettings) ? keys.map(() => undefined) : values
  }

  return {
    async read(keys) {
      // MGET without keys is an error in Redis.
      if (keys.length === 0) return []
      const values = await readIfAllowed(keys)
      const misses = values.filter(value => value === undefined).length
      counts.misses += misses
      counts.hits += values.length - misses
      return values
    },
    write(entries) {
      if (!available || isOpen(breaker, breakerSettings)) return
      const small = entries.filter(([, value]) => Buffer.byteLength(value) <= MAX_VALUE_BYTES)
      if (small.length === 0) return
      writeMany(small).catch(error => log.debug({ reason: String(error) }, 'cache write failed'))
    },
    report() {
      const usable = available === true && !isOpen(breaker, breakerSettings)
      return { ...counts, state: available === undefined ? 'connecting' : usable ? 'connected' : 'away' }
    },
    close() {
      closed = true
      redis.disconnect()
    },
  }
}
