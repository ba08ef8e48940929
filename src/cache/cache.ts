// Redis as a place for answers that can be had again: whatever is wrong with it, nothing fails and nothing is stale.
import { Cluster, Redis } from 'ioredis'
import type { Config } from '../config/config.ts'
import { reasonOf } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import type { CacheState } from '../core/messages.ts'
import { afterFailure, attempt, type Breaker, closedBreaker, isOpen } from './breaker.ts'

export interface Cache {
  /** One value a key, undefined where there is none or where Redis does not answer in time. */
  read(keys: readonly string[]): Promise<(string | undefined)[]>
  /** Stores values in the background. */
  write(entries: readonly (readonly [key: string, value: string])[]): void
  /** How many values were there, and how many were not, since the beginning; and whether Redis is. */
  report(): { hits: number; misses: number; state: CacheState }
  close(): void
}

const uncached: Cache = {
  read: keys => Promise.resolve(keys.map(() => undefined)),
  write: () => {},
  report: () => ({ hits: 0, misses: 0, state: 'none' }),
  close: () => {},
}

const MAX_RECONNECT_MS = 2000
const breakerSettings = { failures: 3, pauseMs: 1000 }

function connect({ url, timeoutMs }: Config['cache'] & { url: string[] }): Redis | Cluster {
  const options = {
    commandTimeout: timeoutMs,
    connectTimeout: 10 * timeoutMs,
    // A connection on which nothing comes back any more is made anew.
    socketTimeout: 2 * timeoutMs,
    // While Redis is away a command fails at once: the database answers.
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

/** What was stored under `key`; a stored value says whose it is, so that no mixed-up answer passes for another. */
function belonging(stored: unknown, key: string): string | undefined {
  return typeof stored === 'string' && stored.startsWith(key) ? stored.slice(key.length) : undefined
}

/** @param settings.url one URL a node, several are a cluster; null is no cache */
export function createCache(settings: Config['cache'], log: Log): Cache {
  const { url, ttlSeconds } = settings
  if (url === null) return uncached
  const redis = connect({ ...settings, url })
  let closed = false
  /** Undefined until the first attempt to connect has come to something. */
  let available: boolean | undefined
  const counts = { hits: 0, misses: 0 }
  redis.on('ready', () => {
    if (available !== true) log.info('the cache is there')
    available = true
  })
  const away = (reason: string) => {
    if (available !== false && !closed) log.warn({ reason }, 'the cache is away: reads go to the database')
    available = false
  }
  redis.on('error', error => away(reasonOf(error)))
  redis.on('close', () => away('the connection ended'))

  // The keys of one MGET, or of one pipeline, would have to live on one node of a cluster, which sorts single commands
  // into a pipeline for each node by itself.
  const readMany = async (keys: readonly string[]) =>
    redis instanceof Cluster ? Promise.all(keys.map(key => redis.get(key))) : redis.mget([...keys])

  async function writeMany(entries: readonly (readonly [string, string])[]): Promise<void> {
    const target = redis instanceof Cluster ? redis : redis.pipeline()
    const written = entries.map(([key, value]) => target.set(key, key + value, 'EX', ttlSeconds))
    await (target instanceof Cluster ? Promise.all(written) : target.exec())
  }

  let breaker: Breaker = closedBreaker
  function change(to: Breaker, reason: string): void {
    const [was, is] = [isOpen(breaker, breakerSettings), isOpen(to, breakerSettings)]
    breaker = to
    if (was !== is)
      log.warn(
        { reason },
        is ? 'the cache is left alone: reads go to the database' : 'the cache is used again',
      )
  }

  async function readAvailable(keys: readonly string[]): Promise<(string | undefined)[]> {
    try {
      const found = await readMany(keys)
      if (!Array.isArray(found) || found.length !== keys.length) throw new Error('this is no answer to MGET')
      if (breaker.failures > 0) change(closedBreaker, 'it answers')
      return found.map((value, at) => belonging(value, keys[at] ?? ''))
    } catch (error) {
      change(afterFailure(breaker, breakerSettings, performance.now()), String(error))
      log.debug({ reason: String(error) }, 'the cache did not answer')
      return keys.map(() => undefined)
    }
  }

  async function readIfAllowed(keys: readonly string[]): Promise<(string | undefined)[]> {
    const allowed = available ? attempt(breaker, breakerSettings, performance.now()) : undefined
    if (allowed === undefined) return keys.map(() => undefined)
    breaker = allowed
    const values = readAvailable(keys)
    // Nobody waits for an attempt that will hardly succeed.
    return isOpen(allowed, breakerSettings) ? keys.map(() => undefined) : values
  }

  return {
    async read(keys) {
      // Redis would call it an error.
      if (keys.length === 0) return []
      const values = await readIfAllowed(keys)
      const misses = values.filter(value => value === undefined).length
      counts.misses += misses
      counts.hits += values.length - misses
      return values
    },
    write(entries) {
      if (!available || isOpen(breaker, breakerSettings)) return
      writeMany(entries).catch(error => log.debug({ reason: String(error) }, 'the cache did not store'))
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
