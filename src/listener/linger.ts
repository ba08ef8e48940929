// Ends a connection whose client may still send. Closing a socket with unread input resets the connection, and the client
// can lose the response.
import type { Socket } from 'node:net'

/** The same times as in nginx (lingering_timeout, lingering_time). */
const MAX_SILENCE_MS = 5000
const MAX_MS = 30_000
const MAX_BYTES = 64 * 1024 * 1024

/**
 * Ends the sending side of `socket`, and discards what is received until the client ends its side too or is silent, for a
 * limited time and number of bytes.
 */
export function linger(socket: Socket): void {
  const silence = setTimeout(() => socket.destroy(), MAX_SILENCE_MS).unref()
  const end = setTimeout(() => socket.destroy(), MAX_MS).unref()
  socket.once('close', () => {
    clearTimeout(silence)
    clearTimeout(end)
  })
  let bytes = 0
  const discard = (chunk: Buffer) => {
    bytes += chunk.length
    silence.refresh()
    if (bytes > MAX_BYTES) socket.destroy()
  }
  socket.on('error', () => {}).end()
  // Reading begins in the next tick, and only as long as the parser of Node.js is attached. A listener detaches it. Until
  // then, the parser can have paused the socket behind the body of a request.
  socket.resume()
  process.nextTick(() => socket.removeAllListeners('data').on('data', discard).resume())
}

/**
 * Has `socket.destroySoon`, which Node.js calls after the last response, linger if the client may still send.
 * @param maySend returns whether it may
 */
export function lingerAtEnd(socket: Socket, maySend: () => boolean): void {
  const { destroySoon } = socket
  let isLingering = false
  socket.destroySoon = () => {
    if (isLingering) return
    isLingering = maySend()
    if (isLingering) linger(socket)
    else destroySoon.call(socket)
  }
}
