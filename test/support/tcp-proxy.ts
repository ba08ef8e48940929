// A TCP proxy in front of a database or a Redis: it can be slammed, blocked and opened again.
import { once } from 'node:events'
import net from 'node:net'
import { Transform } from 'node:stream'

/** Sees what passes, to the server or back, on a connection of ours; false lets it fall to the floor. */
export type Watch = (to: 'server' | 'client', bytes: Buffer, client: net.Socket) => boolean

/**
 * Opens a proxy to the server of `url`, which may stand on a port or on a Unix socket.
 * @param watch stands in it
 * @returns `port` to knock at, and what can be done to the proxy
 */
export async function openTcpProxy(url: string, watch: Watch = () => true) {
  const { hostname, port, pathname, protocol, searchParams } = new URL(url)
  const socketPath = protocol === 'redis+unix:' ? pathname : searchParams.get('socketPath')
  const pairs = new Set<[inside: net.Socket, outside: net.Socket]>()
  let state: 'open' | 'shut' | 'blocked' = 'open'

  const block = (pair: [net.Socket, net.Socket]) => {
    for (const socket of pair) socket.unpipe().pause()
  }
  const pass = ([inside, outside]: [net.Socket, net.Socket]) => {
    const watched = (to: 'server' | 'client') =>
      new Transform({
        transform: (bytes: Buffer, _, done) => (watch(to, bytes, inside) ? done(null, bytes) : done()),
      })
    inside.pipe(watched('server')).pipe(outside)
    outside.pipe(watched('client')).pipe(inside)
  }
  const server = net.createServer(inside => {
    if (state === 'shut') {
      inside.destroy()
      return
    }
    const outside = socketPath === null ? net.connect(Number(port), hostname) : net.connect(socketPath)
    const pair: [net.Socket, net.Socket] = [inside, outside]
    pairs.add(pair)
    for (const socket of pair) {
      socket.on('error', () => undefined)
      socket.on('close', () => {
        pairs.delete(pair)
        for (const each of pair) each.destroy()
      })
    }
    if (state === 'open') pass(pair)
    else block(pair)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')

  return {
    port: address.port,
    /** Waits until somebody has come so many times, from now on. */
    async knocks(times: number): Promise<void> {
      for (let knocked = 0; knocked < times; knocked++) await once(server, 'connection')
    },
    /** Ends all connections and refuses new ones. */
    slam(): void {
      state = 'shut'
      for (const pair of pairs) for (const socket of pair) socket.destroy()
    },
    /** Lets nothing through any more, without a word. */
    block(): void {
      state = 'blocked'
      pairs.forEach(block)
    },
    /** All is as before; what was held back goes on. */
    open(): void {
      state = 'open'
      pairs.forEach(pass)
    },
    close(): void {
      this.slam()
      server.close()
    },
  }
}
