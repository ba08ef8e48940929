// Reads and writes several keys at once, on one Redis server or on the nodes of a Redis Cluster.
import { Cluster, type Redis } from 'ioredis'

type Entry = readonly [key: string, value: string]

/** Returns undefined if there is no reply in time. */
function inTime<T>(reply: Promise<T>, timeoutMs: number): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, timeoutMs, undefined)
    reply.finally(() => clearTimeout(timer)).then(resolve, reject)
  })
}

const asError = (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason)))

/**
 * Reads several keys, for at most `timeoutMs`. The keys of one MGET must be on the same node, so in a Redis Cluster ioredis
 * groups single commands into one pipeline per node.
 * @returns the replies, null for a missing key, undefined for a key of a node that did not reply
 * @throws Error if Redis failed as a whole, rather than a node of a Redis Cluster that is known to be away
 */
export async function readKeys(
  redis: Redis | Cluster,
  keys: readonly string[],
  timeoutMs: number,
): Promise<readonly unknown[]> {
  const late = () => new Error(`no reply within ${timeoutMs} ms`)
  if (redis instanceof Cluster) {
    // Async, because ioredis throws for a slot without a node.
    const replies = await Promise.allSettled(keys.map(async key => inTime(redis.get(key), timeoutMs)))
    const values = replies.map(reply => (reply.status === 'fulfilled' ? reply.value : undefined))
    const isLate = replies.some(reply => reply.status === 'fulfilled' && reply.value === undefined)
    if (isLate && values.every(value => value === undefined)) throw late()
    return values
  }
  const values: readonly unknown[] | undefined = await inTime(redis.mget([...keys]), timeoutMs)
  if (values === undefined) throw late()
  if (!Array.isArray(values) || values.length !== keys.length) throw new Error('unexpected reply to MGET')
  return values
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
  const commands = entries.map(([key, value]) => ['set', key, value, 'EX', ttlSeconds])
  const results = (await redis.pipeline(commands).exec()) ?? []
  return results.flatMap(([error]) => (error === null ? [] : [error]))
}
