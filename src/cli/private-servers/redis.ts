// Prepares a private Redis as a cache: no persistence, least recently used keys are evicted, and it listens only on a
// Unix socket.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Redis } from 'ioredis'
import { socketFolder } from './folders.ts'
import { pathOf, redisProgram } from './programs.ts'
import type { PrivateServer, ServerOptions } from './server.ts'

const TIMEOUT_MS = 2000

/** Sends one command on a connection of its own. @param server a URL, or the path of a Unix socket */
export async function ask(
  server: string | { readonly path: string },
  command: string,
  ...args: string[]
): Promise<unknown> {
  const options = {
    lazyConnect: true,
    retryStrategy: () => null,
    enableReadyCheck: false,
    connectTimeout: TIMEOUT_MS,
    commandTimeout: TIMEOUT_MS,
  }
  const client =
    typeof server === 'string' ? new Redis(server, options) : new Redis({ ...options, ...server })
  client.on('error', () => {})
  try {
    await client.connect()
    return await client.call(command, ...args)
  } finally {
    client.disconnect()
  }
}

/** @throws Error if Redis is not installed */
export async function prepareRedis({ base }: Pick<ServerOptions, 'base'>): Promise<PrivateServer> {
  const program = pathOf(redisProgram)
  const folder = await socketFolder(base)
  const socketPath = join(folder, 'redis.sock')
  const settings = {
    port: '0',
    unixsocket: socketPath,
    unixsocketperm: '700',
    dir: folder,
    pidfile: join(folder, 'redis.pid'),
    save: '',
    maxmemory: '128mb',
    'maxmemory-policy': 'allkeys-lru',
  }
  return {
    title: redisProgram.title,
    program,
    args: Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
    url: `redis+unix://${pathToFileURL(socketPath).pathname}`,
    ping: async () => void (await ask({ path: socketPath }, 'PING')),
  }
}
