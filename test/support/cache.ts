// A cache on a real Redis, with its log, and keys to fill it.
import type { ExecutionContext } from 'ava'
import { pino } from 'pino'
import { type Cache, createCache } from '../../src/cache/cache.ts'
import { until } from './until.ts'

/** How long a cache waits for a reply, unless a test says otherwise: longer than a reply takes on a slow machine. */
const TIMEOUT_MS = 4000

/** Opens a cache. `lines` are the messages of its log. */
export function logCache(t: ExecutionContext, url: string[], timeoutMs = TIMEOUT_MS) {
  const lines: { msg: string; reason?: string }[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line)) })
  const cache = createCache({ url, ttlSeconds: 300, timeoutMs }, log)
  t.teardown(() => cache.close())
  return { cache, messages: () => lines.map(({ msg }) => msg), lines }
}

/** Opens a cache and waits until it is connected. */
export async function openCache(t: ExecutionContext, url: string[], timeoutMs?: number) {
  const opened = logCache(t, url, timeoutMs)
  await until(() => opened.cache.report().state === 'connected')
  return opened
}

/** Writes all keys and waits until they are stored. */
export async function fill(cache: Cache, keys: readonly string[]): Promise<void> {
  const isFilled = async () => {
    if (!(await cache.read(keys)).includes(undefined)) return true
    cache.write(keys.map(key => [key, `value of ${key}`]))
    return false
  }
  await until(isFilled, { everyMs: 50, describe: () => `all of ${keys.length} keys are stored` })
}

/**
 * Reads the keys and returns which of them have a value, and whether it took twice the time-out. A timer tells that, not the
 * clock: if this process is late, the timers of the cache still end before it.
 */
export async function readHits(cache: Cache, keys: readonly string[], timeoutMs = TIMEOUT_MS) {
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
  }, 2 * timeoutMs)
  const values = await cache.read(keys)
  clearTimeout(timer)
  return { isLate, hits: keys.filter((_, index) => values[index] !== undefined) }
}

export const keysOf = (count: number) => Array.from({ length: count }, (_, index) => `key ${index}:`)
