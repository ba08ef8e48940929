// A client of one Redis or of a Redis Cluster, which reads and writes several keys at once.
import { Cluster, Redis } from 'ioredis'

type Entry = readonly [key: string, value: string]

/** The replies to a read: one for each key, undefined if the key is missing or has no reply. */
export interface Replies {
  readonly values: readonly unknown[]
  /** Whether Redis failed as a whole, rather than a node of a cluster that is known to be away. */
  readonly failure?: Error
}

const MAX_RECONNECT_MS = 2000
/** How often the nodes of a cluster are asked which slots they have, beside each redirection. */
const SLOTS_REFRESH_MS = 5000

/** @param url one URL per node; several URLs are a cluster */
export function connect({ url, timeoutMs }: { url: readonly string[]; timeoutMs: number }): Redis | Cluster {
  const options = {
    connectTimeout: 10 * timeoutMs,
    // ioredis reconnects if a connection receives no data for this long.
    socketTimeout: 2 * timeoutMs,
    // While Redis is disconnected, commands fail at once and the database is queried.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (attempt: number) => Math.min(MAX_RECONNECT_MS, 50 * 2 ** attempt),
  }
  const [first = '', ...others] = url
  if (first.startsWith('redis+unix:')) return new Redis(new URL(first).pathname, options)
  if (others.length === 0) return new Redis(first, options)
  // A URL applies its user, password and TLS to its own node only, but the cluster has further nodes.
  const { protocol, username, password } = new URL(first)
  const isEncrypted = protocol === 'rediss:'
  const nodes = url.map(node => {
    const { hostname, port } = new URL(node)
    return { host: hostname.replace(/^\[(.*)\]$/, '$1'), port: port === '' ? 6379 : Number(port) }
  })
  return new Cluster(nodes, {
    enableAutoPipelining: true,
    enableOfflineQueue: false,
    // Commands to a node that is away fail at once.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    slotsRefreshInterval: SLOTS_REFRESH_MS,
    // A certificate names the host, not the address that ioredis would connect to.
    ...(isEncrypted && { dnsLookup: (host, done) => done(null, host) }),
    redisOptions: {
      ...options,
      ...(username !== '' && { username: decodeURIComponent(username) }),
      ...(password !== '' && { password: decodeURIComponent(password) }),
      ...(isEncrypted && { tls: {} }),
    },
  })
}

/** Waits until all requests have a result, for at most `timeoutMs`. */
function settle(requests: readonly Promise<unknown>[], timeoutMs: number) {
  return new Promise<{ values: unknown[]; fulfilled: number; late: boolean; error?: unknown }>(resolve => {
    const values: unknown[] = requests.map(() => undefined)
    let [fulfilled, rejected] = [0, 0]
    let error: unknown
    const finish = (late: boolean) => {
      clearTimeout(timer)
      resolve({ values: [...values], fulfilled, late, error })
    }
    const timer = setTimeout(finish, timeoutMs, true)
    const finishLast = () => {
      if (fulfilled + rejected === requests.length) finish(false)
    }
    for (const [index, request] of requests.entries())
      request.then(
        value => {
          values[index] = value
          fulfilled++
          finishLast()
        },
        (reason: unknown) => {
          error = reason
          rejected++
          finishLast()
        },
      )
  })
}

const asError = (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason)))

/**
 * Reads several keys, for at most `timeoutMs`. The keys of one MGET must be on the same node, so in a cluster ioredis
 * groups single commands into one pipeline per node.
 */
export async function readKeys(
  redis: Redis | Cluster,
  keys: readonly string[],
  timeoutMs: number,
): Promise<Replies> {
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
