// Reads and writes several keys at once, on one Redis server or on the nodes of a Redis Cluster.
import { Cluster, type Redis } from 'ioredis'

type Entry = readonly [key: string, value: string]

/** Waits until all requests have a result, for at most `timeoutMs`. */
function settle(requests: readonly Promise<unknown>[], timeoutMs: number) {
  const values: unknown[] = requests.map(() => undefined)
  let fulfilled = 0
  let error: unknown
  const results = requests.map(async (request, index) => {
    try {
      values[index] = await request
      fulfilled++
    } catch (reason) {
      error = reason
    }
  })
  return new Promise<{ values: unknown[]; fulfilled: number; late: boolean; error?: unknown }>(resolve => {
    const finish = (late: boolean) => {
      clearTimeout(timer)
      resolve({ values: [...values], fulfilled, late, error })
    }
    const timer = setTimeout(finish, timeoutMs, true)
    void Promise.all(results).then(() => finish(false))
  })
}

const asError = (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason)))

/**
 * Reads several keys, for at most `timeoutMs`. The keys of one MGET must be on the same node, so in a cluster ioredis
 * groups single commands into one pipeline per node.
 * @returns the replies, undefined for a key that is missing or has none; `failure` if Redis failed as a whole, rather
 * than a node of a cluster that is known to be away
 */
export async function readKeys(redis: Redis | Cluster, keys: readonly string[], timeoutMs: number) {
  const isCluster = redis instanceof Cluster
  // Async, because ioredis throws for a slot without a node.
  const requests = isCluster ? keys.map(async key => redis.get(key)) : [redis.mget([...keys])]
  const { values: replies, fulfilled, late, error } = await settle(requests, timeoutMs)
  const values = isCluster ? replies : replies[0]
  if (fulfilled > 0) {
    if (Array.isArray(values) && values.length === keys.length) return { values }
    return { values: [], failure: new Error('unexpected reply to MGET') }
  }
  if (late) return { values: [], failure: new Error(`no reply within ${timeoutMs} ms`) }
  return isCluster ? { values: [] } : { values: [], failure: asError(error) }
}

/** Stores the entries. @returns the errors of those that were not stored */
export async function writeEntries(
  redis: Redis | Cluster,
  entries: readonly Entry[],
  ttlSeconds: number,
): Promise<Error[]> {
  if (redis instanceof Cluster) {
    const outcomes = await Promise.allSettled(
      entries.map(async ([key, value]) => redis.set(key, value, 'EX', ttlSeconds)),
    )
    return outcomes.flatMap(outcome => (outcome.status === 'rejected' ? [asError(outcome.reason)] : []))
  }
  const pipeline = redis.pipeline()
  for (const [key, value] of entries) pipeline.set(key, value, 'EX', ttlSeconds)
  const results = (await pipeline.exec()) ?? []
  return results.flatMap(([error]) => (error === null ? [] : [error]))
}
