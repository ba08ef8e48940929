// A TCP proxy in front of a Redis on a Unix socket. It can drop, delay or replace the responses of Redis.
import { randomBytes } from 'node:crypto'
import net from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { listenOnFreePort } from '../support/ports.ts'

/** Returns the bytes to send instead of a chunk of a response, or undefined to drop the chunk. */
type ResponseFault = (chunk: Buffer) => Buffer | Promise<Buffer> | undefined

// A well-formed RESP array whose one element looks like cached groups, but answers none of the commands.
const unrelatedReply = Buffer.from('*1\r\n$39\r\n[{"id":1,"name":"a name never stored"}]\r\n')

const passThrough: ResponseFault = chunk => chunk

export const responseFaults = {
  'no responses': () => undefined,
  'random bytes': chunk => randomBytes(chunk.length),
  'unrelated replies': () => unrelatedReply,
} satisfies Record<string, ResponseFault>

/** Returns a fault that delays every response by `delayMs`. */
export const slow =
  (delayMs: number): ResponseFault =>
  chunk =>
    delay(delayMs, chunk)

/** @param url a `redis+unix:` URL */
export async function startRedisProxy(url: string) {
  let fault: ResponseFault = passThrough
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
    redis.on('data', chunk => {
      const replaced = fault(chunk)
      if (replaced === undefined) return
      // Chunks are written in the order of their arrival, even if a delay changes in between.
      last = Promise.all([replaced, last]).then(([bytes]) => void client.write(bytes))
    })
  })
  return {
    url: `redis://127.0.0.1:${await listenOnFreePort(server)}`,
    setFault(newFault: ResponseFault): void {
      fault = newFault
    },
    clearFault(): void {
      fault = passThrough
    },
    close(): void {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
