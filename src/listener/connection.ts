// One connection of a data port: its requests and answers in their order, and whether it is busy.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createRequestQueue } from './request-queue.ts'

export type Connection = ReturnType<typeof createConnection>

/** Times are those of `performance.now()`. */
export function createConnection(socket: Socket) {
  const openedMs = performance.now()
  const turns = createRequestQueue()
  let inFlight = 0
  let quietSinceMs = openedMs
  /** `socket.bytesRead` when it fell quiet: more than that is the beginning of another request. */
  let bytesAtRest = 0
  /** The response begun last. */
  let latest: ServerResponse | undefined
  /** Answers what the parser has refused. */
  let refusal: (() => void) | undefined

  /** Lets the refusal have its place, behind the answers that are due before. */
  function refuseInTurn(): void {
    if (refusal === undefined || socket.writableEnded) return
    // What was refused is a part of the latest request, or came after it.
    const isPart = latest?.req.complete === false
    if (inFlight > (isPart ? 1 : 0)) return
    if (isPart && latest?.headersSent) socket.destroySoon()
    else if (isPart || latest === undefined || latest.shouldKeepAlive) refusal()
  }

  return {
    openedMs,
    /** How many of its requests take up room of the port: whoever let them in counts them. */
    admitted: 0,
    inFlight: () => inFlight,
    quietSinceMs: () => quietSinceMs,
    isIdle: () => inFlight === 0 && socket.bytesRead === bytesAtRest,

    /** What follows an answer that ends the connection is not looked at (RFC 9112, 9.6): it can be sent elsewhere. */
    isListening: () =>
      refusal === undefined &&
      !socket.writableEnded &&
      (latest === undefined || latest.shouldKeepAlive || !latest.headersSent),

    /** @param serve is called when it is the request's turn; undefined for one that is turned away, and has none */
    began(response: ServerResponse, serve: (() => void) | undefined): void {
      // Only the last of several answers can say that it ends the connection.
      if (latest?.headersSent === false) latest.shouldKeepAlive = true
      latest = response
      inFlight++
      if (serve !== undefined) turns.take(response.req.method, serve)
    },

    /** The answer that is due last says `Connection: close`, if it can still be said. */
    closeAfterLatest(): void {
      if (latest?.headersSent === false) latest.shouldKeepAlive = false
    },

    /** A request is over. */
    ended(hadTurn: boolean): void {
      inFlight--
      quietSinceMs = performance.now()
      bytesAtRest = socket.bytesRead
      // Nobody would hear the answer to what follows an answer that has ended the connection.
      if (socket.destroyed || socket.writableEnded) return
      if (hadTurn) turns.ended()
      refuseInTurn()
    },

    /**
     * The parser has refused what was sent.
     * @param answer is called in its place, unless an answer that is due before ends the connection
     */
    refused(answer: () => void): void {
      refusal ??= answer
      refuseInTurn()
    },
  }
}
