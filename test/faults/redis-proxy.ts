// A TCP proxy before a Redis on a Unix socket that does to its answers whatever can be done to them.
import { randomBytes } from 'node:crypto'
import net from 'node:net'

/** What becomes of a piece of an answer; undefined: it is lost. */
type Tamper = (piece: Buffer) => Buffer | Promise<Buffer> | undefined

const nonsense = Buffer.from('*1\r\n$37\r\n[{"id":1,"name":"nobody said so ever"}]\r\n')

const honest: Tamper = piece => piece

export const tampers = {
  'a black hole': () => undefined,
  garbage: piece => randomBytes(piece.length),
  /** In the protocol's own form. */
  'answers to other questions': () => nonsense,
} satisfies Record<string, Tamper>

/** Every answer so much later. */
export const slow =
  (delayMs: number): Tamper =>
  piece =>
    new Promise(resolve => setTimeout(() => resolve(piece), delayMs))

/** @param url `redis+unix:` */
export async function startRedisProxy(url: string) {
  let tamper: Tamper = honest
  const sockets = new Set<net.Socket>()
  const server = net.createServer(client => {
    const redis = net.connect(new URL(url).pathname)
    for (const [socket, other] of [
      [client, redis],
      [redis, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
    }
    client.pipe(redis)
    let last = Promise.resolve()
    redis.on('data', piece => {
      const made = tamper(piece)
      if (made === undefined) return
      // In their order, however long each one takes.
      last = Promise.all([made, last]).then(([bytes]) => void client.write(bytes))
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  return {
    url: `redis://127.0.0.1:${address.port}`,
    setState(wanted: Tamper): void {
      tamper = wanted
    },
    heal(): void {
      tamper = honest
    },
    close(): void {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
