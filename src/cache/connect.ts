// Connects to Redis: one server, the nodes of a Redis Cluster, or the master that Sentinels name.
import { Cluster, Redis } from 'ioredis'
import { isObject } from '../core/json-object.ts'

const MAX_RECONNECT_MS = 2000
/** How often the nodes of a Redis Cluster are asked which slots they have, beside each redirection. */
const SLOTS_REFRESH_MS = 5000
const REDIS_PORT = 6379
const SENTINEL_PORT = 26_379

const pauseMs = (attempt: number) => Math.min(MAX_RECONNECT_MS, 50 * 2 ** attempt)

function addressesOf(urls: readonly string[], defaultPort: number) {
  return urls.map(url => {
    const { hostname, port } = new URL(url)
    return { host: hostname.replace(/^\[(.*)\]$/, '$1'), port: port === '' ? defaultPort : Number(port) }
  })
}

/**
 * Connects in the background, and again after each loss.
 * @param url one URL for each host, all with the scheme, user and password of the first
 * @param timeoutMs how long a caller waits for a reply
 */
export function connect({ url, timeoutMs }: { url: readonly string[]; timeoutMs: number }): Redis | Cluster {
  const options = {
    connectTimeout: 10 * timeoutMs,
    // ioredis connects again if no data arrives for this long while a command waits for its reply.
    socketTimeout: 2 * timeoutMs,
    // While Redis is disconnected, commands fail at once and the database is queried.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: pauseMs,
  }
  const [first = ''] = url
  const { protocol, username, password, pathname, search } = new URL(first)
  if (protocol === 'redis+unix:') return new Redis({ ...options, path: decodeURIComponent(pathname) })

  const isSentinel = protocol.endsWith('+sentinel:')
  const isEncrypted = protocol.startsWith('rediss')
  const serverOptions = {
    ...options,
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
    ...(isEncrypted && { tls: {} }),
  }
  if (isSentinel) {
    // As in the user and the password of the URL, a + is no space.
    const parameters = new URLSearchParams(search.replaceAll('+', '%2B'))
    return new Redis({
      ...serverOptions,
      name: decodeURIComponent(pathname.slice(1)),
      sentinels: addressesOf(url, SENTINEL_PORT),
      sentinelUsername: parameters.get('sentinel_username') ?? undefined,
      sentinelPassword: parameters.get('sentinel_password') ?? undefined,
      // Without it, a Sentinel that hangs would be waited for without a limit.
      sentinelCommandTimeout: 2 * timeoutMs,
      sentinelRetryStrategy: pauseMs,
      ...(isEncrypted && { sentinelTLS: {}, enableTLSForSentinelMode: true }),
    })
  }
  const nodes = addressesOf(url, REDIS_PORT)
  if (nodes.length === 1) {
    const redis = new Redis({ ...serverOptions, ...nodes[0], db: Number(pathname.slice(1)) })
    return redis.on('error', error => {
      // After an error of SELECT, ioredis would go on with database 0.
      if ('command' in error && isObject(error.command) && error.command.name === 'select')
        redis.disconnect(true)
    })
  }
  return new Cluster(nodes, {
    enableAutoPipelining: true,
    enableOfflineQueue: false,
    // Commands to a node that is away fail at once.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    slotsRefreshInterval: SLOTS_REFRESH_MS,
    // A certificate names the host, not the address that ioredis would connect to.
    ...(isEncrypted && { dnsLookup: (host, done) => done(null, host) }),
    redisOptions: serverOptions,
  })
}
