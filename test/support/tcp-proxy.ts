// A TCP proxy in front of a database or a Redis that can refuse, block and restore connections.
import { once } from 'node:events'
import net from 'node:net'
import { Transform } from 'node:stream'
import { listenOnFreePort } from './ports.ts'

/** Called for each chunk that passes through the proxy. Returns false to drop the chunk. */
export type Inspect = (to: 'server' | 'client', bytes: Buffer, client: net.Socket) => boolean

/**
 * Opens a proxy to the server of `url`, which may listen on a port or on a Unix socket.
 * @param inspect sees, and may drop, each chunk
 */
export async function openTcpProxy(url: string, inspect: Inspect = () => true) {
  const { hostname, port, pathname, protocol, searchParams } = new URL(url)
  const socketPath =
    protocol === 'redis+unix:' ? decodeURIComponent(pathname) : searchParams.get('socketPath')
  const pairs = new Set<[client: net.Socket, upstream: net.Socket]>()
  let state: 'open' | 'closed' | 'blocked' = 'open'

  const block = (pair: [net.Socket, net.Socket]) => {
    for (const socket of pair) socket.unpipe().pause()
  }
  const pass = ([client, upstream]: [net.Socket, net.Socket]) => {
    const filtered = (to: 'server' | 'client') =>
      new Transform({
        transform: (bytes: Buffer, _, done) => (inspect(to, bytes, client) ? done(null, bytes) : done()),
      })
    client.pipe(filtered('server')).pipe(upstream)
    upstream.pipe(filtered('client')).pipe(client)
  }
  const end = (pair: [net.Socket, net.Socket]) => {
    pairs.delete(pair)
    for (const socket of pair) socket.destroy()
  }
  const server = net.createServer(client => {
    if (state === 'closed') {
      client.destroy()
      return
    }
    const upstream = socketPath === null ? net.connect(Number(port), hostname) : net.connect(socketPath)
    const pair: [net.Socket, net.Socket] = [client, upstream]
    pairs.add(pair)
    for (const socket of pair) {
      socket.on('error', () => undefined)
      socket.on('close', () => {
        // The end of a connection does not get through either.
        if (state !== 'blocked') end(pair)
      })
    }
    if (state === 'open') pass(pair)
    else block(pair)
  })
  return {
    port: await listenOnFreePort(server),
    /** Returns the number of connections. */
    count: () => pairs.size,
    /** Waits for the next `count` connection attempts. */
    async attempts(count: number): Promise<void> {
      for (let attempt = 0; attempt < count; attempt++) await once(server, 'connection')
    },
    /** Ends all connections and refuses new ones. */
    refuse(): void {
      state = 'closed'
      pairs.forEach(end)
    },
    /** Stops forwarding without closing any connection. */
    block(): void {
      state = 'blocked'
      pairs.forEach(block)
    },
    /** Accepts connections again and forwards the data that was held back. */
    open(): void {
      state = 'open'
      for (const pair of pairs) {
        if (pair.some(socket => socket.destroyed)) end(pair)
        else pass(pair)
      }
    },
    close(): void {
      this.refuse()
      server.close()
    },
  }
}
