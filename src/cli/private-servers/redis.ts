// Prepares a private Redis as a cache: no persistence, least recently used keys are evicted, and it listens only on a
// Unix socket.
import { once } from 'node:events'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { socketFolder } from './folders.ts'
import { findProgram, redisProgram } from './programs.ts'
import type { PrivateServer, ServerOptions } from './server.ts'

const PING_TIMEOUT_MS = 2000

/** @throws Error if Redis is not installed */
export async function prepareRedis({ base }: Pick<ServerOptions, 'base'>): Promise<PrivateServer> {
  const program = await findProgram(redisProgram.names)
  if (program === undefined) throw new Error(`${redisProgram.title} cannot be found: install it`)
  const folder = await socketFolder(base)
  const socketPath = join(folder, 'redis.sock')
  const settings = {
    port: '0',
    unixsocket: socketPath,
    unixsocketperm: '700',
    dir: folder,
    pidfile: join(folder, 'redis.pid'),
    save: '',
    appendonly: 'no',
    maxmemory: '128mb',
    'maxmemory-policy': 'allkeys-lru',
    daemonize: 'no',
  }
  return {
    title: redisProgram.title,
    program,
    args: Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
    url: `redis+unix://${encodeURI(socketPath)}`,
    async ping() {
      const socket = createConnection(socketPath)
      try {
        socket.setTimeout(PING_TIMEOUT_MS, () => socket.destroy(new Error('no reply to PING in time')))
        await once(socket, 'connect')
        socket.write('PING\r\n')
        const [reply] = await once(socket, 'data')
        if (!String(reply).startsWith('+PONG')) throw new Error(`Redis replied ${reply}`)
      } finally {
        socket.destroy()
      }
    },
  }
}
