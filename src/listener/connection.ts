// State of one connection of a data port: its requests in flight and whether it is idle.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createRequestQueue } from './request-queue.ts'

export type Connection = ReturnType<typeof createConnection>

/** Tracks the requests of `socket`. Times are values of `performance.now()`. */
export function createConnection(socket: Socket) {
  const queue = createRequestQueue()
  let inFlight = 0
  let idleSinceMs = performance.now()
  /** `socket.bytesRead` when the last request finished. More bytes than that belong to another request. */
  let idleBytesRead = 0
  /** The response to the most recent request. */
  let latest: ServerResponse | undefined
  /** Sends the error response to input that was rejected. */
  let sendRejection: (() => void) | undefined

  /** Sends the error response to rejected input once all earlier responses are complete. */
  function sendRejectionInOrder(): void {
    if (sendRejection === undefined || socket.writableEnded) return
    // The rejected input is part of the latest request, or it follows that request.
    const isPartOfLatest = latest?.req.complete === false
    if (inFlight > (isPartOfLatest ? 1 : 0)) return
    if (isPartOfLatest && latest?.headersSent) socket.destroySoon()
    else if (isPartOfLatest || latest === undefined || latest.shouldKeepAlive) sendRejection()
  }

  return {
    /** Number of requests in flight that count towards the limits. The caller maintains it. */
    admitted: 0,
    inFlight: () => inFlight,
    /** When the last request finished, or when the connection was opened. */
    idleSinceMs: () => idleSinceMs,
    /** Whether no request is in flight, not even a partially received one. */
    isIdle: () => inFlight === 0 && socket.bytesRead === idleBytesRead,

    /**
     * Whether another request is processed. Requests behind a response with `Connection: close` are ignored
     * (RFC 9112, 9.6); the client can retry them on another connection.
     */
    acceptsRequests: () =>
      sendRejection === undefined &&
      !socket.writableEnded &&
      (latest === undefined || latest.shouldKeepAlive || !latest.headersSent),

    /** @param serve runs the request, see `enqueue`; undefined for a rejected request, which is not queued */
    requestStarted(response: ServerResponse, serve: (() => void) | undefined): void {
      // Only the last of several pipelined responses may say `Connection: close`.
      if (latest?.headersSent === false) latest.shouldKeepAlive = true
      latest = response
      inFlight++
      if (serve !== undefined) queue.enqueue(response.req.method, serve)
    },

    /** Adds `Connection: close` to the most recent response, unless its headers are already sent. */
    closeAfterLatest(): void {
      if (latest?.headersSent === false) latest.shouldKeepAlive = false
    },

    /** @param wasQueued whether `requestStarted` got a `serve` function for the request */
    requestFinished(wasQueued: boolean): void {
      inFlight--
      idleSinceMs = performance.now()
      idleBytesRead = socket.bytesRead
      // No further response can be sent on an ended connection, so queued requests are not started.
      if (socket.destroyed || socket.writableEnded) return
      if (wasQueued) queue.requestFinished()
      sendRejectionInOrder()
    },

    /**
     * Stops accepting requests, because the input cannot be served.
     * @param respond sends the error response after all earlier responses; it is not called if one of those ends
     *   the connection
     */
    rejectInput(respond: () => void): void {
      sendRejection ??= respond
      sendRejectionInOrder()
    },
  }
}
