// State of one connection of a port: its requests in flight, which are served one after the other, and whether it is idle.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { lingerAtEnd } from './linger.ts'
import { createRequestQueue, type WaitingTotal } from './request-queue.ts'
import { createSocketBytes } from './socket-bytes.ts'

/** A connection that has been idle for longer does not count as active. */
const ACTIVE_MS = 5000

export type Connection = ReturnType<typeof createConnection>

/**
 * Whether the request asks for another protocol, which no port speaks. It is served like all others, but Node.js drops the
 * bytes that were received together with it and follow it. So no other request may follow.
 */
const asksForUpgrade = ({ headers: { upgrade, connection = '' } }: IncomingMessage) =>
  upgrade !== undefined && /upgrade/i.test(connection)

/**
 * Queues the requests of `socket`. Times are values of `performance.now()`.
 * @param peer the address of the client or proxy at the other end
 * @param total is changed by the requests of this connection
 * @param tcpSocket that of a TLS socket
 */
export function createConnection(
  socket: Socket,
  peer: string | undefined,
  total: WaitingTotal,
  tcpSocket?: Socket,
) {
  const requests = createRequestQueue(total)
  /** The response to the most recent request, at least until that has arrived completely, which may be after the response. */
  let latest: ServerResponse | undefined
  let closesAfterResponse = false
  let idleSinceMs = performance.now()
  /** When the request in progress began to be served. */
  let servedMs = idleSinceMs
  const bytes = createSocketBytes(socket, tcpSocket)
  /** Sends the error response to input that was rejected. */
  let sendRejection: (() => void) | undefined
  /** The number of requests so far. */
  let started = 0

  /** Returns the response to the request whose body is being received. */
  const receiving = (): ServerResponse | undefined => (latest?.req.complete === false ? latest : undefined)
  /** Identifies what arrives next: a body, by the response to its request, or headers, by the number of requests before them. */
  const arriving = () => receiving() ?? started
  /** Whether nothing more is read for now. Node.js keeps every request that it reads, also one after rejected input. */
  const isFull = () => requests.isFull() || sendRejection !== undefined
  /** Whether the request that is being received waits for its turn, so that little or nothing of it is read. */
  const isWaiting = () => isFull() || (requests.hasWaiting() && receiving() !== undefined)

  /** Returns the response for which the client can only wait: it has not begun, or waits for an event and is sent so far. */
  function working(): ServerResponse | undefined {
    const response = requests.first()?.response
    if (response?.req.complete !== true) return undefined
    const waits = !response.headersSent || (response.awaitsEvent && socket.writableLength === 0)
    return waits ? response : undefined
  }

  /** Sets whether the response in progress says `Connection: close`. Only the last of several may say so. */
  function updateKeepAlive(): void {
    const current = requests.first()
    if (current === undefined || current.response.headersSent) return
    current.response.shouldKeepAlive = current.keepAlive && (requests.hasWaiting() || !closesAfterResponse)
  }

  function serveFirst(): void {
    // After `Connection: close` no further request is processed (RFC 9112, 9.6): clients may repeat them elsewhere.
    if (socket.destroyed || socket.writableEnded) return
    updateKeepAlive()
    const current = requests.first()
    if (current === undefined) sendRejection?.()
    else {
      servedMs = performance.now()
      current.serve()
    }
    socket.resume()
  }

  function becomeIdle(): void {
    idleSinceMs = performance.now()
    bytes.requestFinished()
    // An idle connection keeps nothing of its last request in memory, such as the body.
    if (receiving() === undefined) latest = undefined
  }

  // Node.js resumes the socket too, for example to read the body of a request. Then it would hand over all that it has read.
  const { resume } = socket
  socket.resume = () => (isFull() && !socket.writableEnded ? socket : resume.call(socket))

  // The client may still send the rest of a body, another request or, over TLS, the end of its side.
  lingerAtEnd(socket, () => {
    const last = requests.first()
    const mayCross = last !== undefined && (last.keepAlive || tcpSocket !== undefined)
    return mayCross || receiving() !== undefined || requests.hasWaiting()
  })

  return {
    /** Returns the request whose body is being received. */
    receiving: (): IncomingMessage | undefined => receiving()?.req,
    /** The address at the other end: the one in the PROXY header, or that of the socket. */
    peer: () => peer,
    inFlight: () => requests.length(),
    waitingBytes: () => requests.waitingBytes(),
    /** Drops the requests that wait, because the connection has ended. */
    dropWaiting: () => requests.dropWaiting(),
    /** The bytes that may wait for the client to read. */
    unreadBytes: bytes.unread,
    /** When the last request finished, or when the connection was opened. */
    idleSinceMs: () => idleSinceMs,
    /** Whether the connection is in use for more than one request. */
    isActive: () =>
      started > 1 &&
      (requests.length() > 0 || (!socket.writableEnded && performance.now() - idleSinceMs < ACTIVE_MS)),
    /** Whether the client can only wait. */
    isWorking: () => working() !== undefined,
    /** Returns the response for which the client can only wait, after `ms`. One that waits for an event is none. */
    unanswered(ms: number): ServerResponse | undefined {
      const response = working()
      const isDue = response?.awaitsEvent !== true && performance.now() - servedMs >= ms
      return isDue ? response : undefined
    },
    /** Whether no request is in flight, not even a partially received one. */
    isIdle: () => requests.length() === 0 && !bytes.hasNext(),

    /** Notes that a PROXY header has been read. @param source the address in it, if there is one */
    headerRead(source: string | undefined): void {
      peer = source ?? peer
      bytes.headerRead()
    },

    /** Whether another request is processed: none is after input that was rejected. */
    acceptsRequests: () => sendRejection === undefined,

    /**
     * Adds a request. A client that sends requests without end can add those of one read buffer beyond the limits.
     * @param serve is called once, immediately or when all responses before this one are complete
     */
    requestStarted(response: ServerResponse, serve: () => void): void {
      started++
      latest = response
      const keepAlive = response.shouldKeepAlive && !asksForUpgrade(response.req)
      requests.push({ response, keepAlive, serve })
      if (isFull()) socket.pause()
      if (requests.hasWaiting()) updateKeepAlive()
      else serveFirst()
    },

    /** Ends the request in progress. The next one has another turn of the event loop: one read can bring a thousand requests. */
    requestFinished(): void {
      const request = requests.shift()?.response.req
      bytes.responseFinished()
      becomeIdle()
      // A response can precede the rest of its request, which Node.js then reads and drops.
      if (request?.complete === false) request.once('end', becomeIdle)
      servedMs = idleSinceMs
      if (requests.length() > 0) setImmediate(serveFirst)
      else serveFirst()
    },

    /** Sets whether the last response from now on, also one in progress, says `Connection: close`. */
    closeAfterResponse(enabled: boolean): void {
      closesAfterResponse = enabled
      updateKeepAlive()
    },

    /**
     * Calls `reject` if the request that is being received is late. One that waits for its turn is not late: its time
     * begins with its turn. Node.js reports each request at most once.
     * @param requestMs the time for a whole request
     */
    requestTimedOut(requestMs: number, reject: () => void): void {
      if (!isWaiting()) {
        reject()
        return
      }
      const awaited = arriving()
      const check = (): void => {
        if (arriving() !== awaited || socket.destroyed) return
        const leftMs = isWaiting() ? requestMs : idleSinceMs + requestMs - performance.now()
        if (leftMs > 0) setTimeout(check, leftMs).unref()
        else reject()
      }
      setTimeout(check, requestMs).unref()
    },

    /**
     * Call it when Node.js has handed the socket over, as it does after CONNECT, and has removed its listeners: the
     * responses that are due still need them.
     */
    takeOver(): void {
      socket
        .on('error', () => {})
        .on('timeout', () => socket.destroy())
        .on('drain', () => requests.first()?.response.emit('drain'))
    },

    /**
     * Stops accepting requests, because the input cannot be served.
     * @param respond sends the error response after all earlier responses; it is not called if one of those ends
     *   the connection. `replaced` is the response to the request whose body is rejected
     */
    rejectInput(respond: (replaced?: ServerResponse) => void): void {
      if (sendRejection !== undefined) return
      // The rejected input is part of the latest request, or it follows that request.
      const rejected = receiving()
      sendRejection = () => respond(rejected)
      // When the client has ended its side, Node.js would close the connection after the response in progress.
      socket.removeAllListeners('end')
      // The error takes the turn of a request that waits: `serveFirst` sends it.
      if (rejected !== undefined && requests.hasWaiting()) requests.pop()
      // No error can follow the beginning of a response.
      else if (rejected?.headersSent) socket.destroySoon()
      else if (rejected !== undefined || requests.length() === 0) sendRejection()
      if (!socket.writableEnded) socket.pause()
    },
  }
}
