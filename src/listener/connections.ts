// The connections of one port: enforces their limits, and closes them without losing a request.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Config } from '../config/config.ts'
import { type Connection, createConnection } from './connection.ts'
import type { WaitingTotal } from './request-queue.ts'

// Long enough for a client that reads at once, short enough to bound what can be written meanwhile.
const UNREAD_CHECK_MS = 100

/** Limits of one port, over all clients. */
export type ConnectionLimits = Pick<Config['limits'], 'connections' | 'unreadBytes' | 'waitingBytes'>

export type Connections = ReturnType<typeof createConnections>

/**
 * Times are values of `performance.now()`.
 * @param onRequestFinished is called for each finished request; `status` is undefined if the response was not sent
 *   completely
 */
export function createConnections(
  limits: ConnectionLimits,
  onRequestFinished: (response: ServerResponse, status: number | undefined, durationMs: number) => void,
) {
  const open = new Map<Socket, Connection>()
  const waiting: WaitingTotal = { bytes: 0, highBytes: limits.waitingBytes / 2 }
  let closeAfterResponse = false
  /** When the last connection ended, or the port was created. */
  let lastEndMs = performance.now()

  function forget(socket: Socket): void {
    open.get(socket)?.dropWaiting()
    open.delete(socket)
  }

  function destroy(socket: Socket): void {
    forget(socket)
    socket.destroy()
  }

  /**
   * Destroys the connection that has been without requests for longest, but rather one whose last response is sent.
   * @returns whether there was one
   */
  function evictIdle(): boolean {
    let longestIdle: Socket | undefined
    let earliestMs = Infinity
    for (const [socket, connection] of open) {
      const idleSinceMs = socket.writableEnded ? 0 : connection.idleSinceMs()
      if (connection.inFlight() > 0 || idleSinceMs >= earliestMs) continue
      longestIdle = socket
      earliestMs = idleSinceMs
    }
    if (longestIdle !== undefined) destroy(longestIdle)
    return longestIdle !== undefined
  }

  function add(socket: Socket, peer: string | undefined, tcpSocket?: Socket): void {
    if (open.size >= limits.connections && !evictIdle()) {
      socket.destroy()
      return
    }
    const connection = createConnection(socket, peer, waiting, tcpSocket)
    connection.closeAfterResponse(closeAfterResponse)
    open.set(socket, connection)
    socket.once('close', () => {
      forget(socket)
      lastEndMs = performance.now()
    })
  }

  /** Destroys the connections with the most bytes until the total is within `maxBytes`. */
  function closeLargest(bytesOf: (connection: Connection) => number, maxBytes: number): void {
    const sizes = [...open].map(([socket, connection]) => ({ socket, bytes: bytesOf(connection) }))
    let total = sizes.reduce((sum, { bytes }) => sum + bytes, 0)
    if (total <= maxBytes) return
    for (const { socket, bytes } of sizes.toSorted((a, b) => b.bytes - a.bytes)) {
      if (total <= maxBytes) break
      total -= bytes
      destroy(socket)
    }
  }
  const closeSlowReaders = () => closeLargest(connection => connection.unreadBytes(), limits.unreadBytes)
  setInterval(closeSlowReaders, UNREAD_CHECK_MS).unref()

  const active = () => [...open.values()].filter(connection => connection.isActive())

  return {
    /** Tracks a new connection. At the limit it replaces an idle one, or is destroyed if none is idle. */
    add: (socket: Socket) => add(socket, socket.remoteAddress),

    /** Returns an open connection. */
    get: (socket: Socket): Connection | undefined => open.get(socket),

    /** Tracks the TLS socket of a connection instead of its TCP socket. */
    replace(tcpSocket: Socket, socket: Socket): void {
      const peer = open.get(tcpSocket)?.peer()
      open.delete(tcpSocket)
      add(socket, peer, tcpSocket)
    },

    /** Calls `serve` when all earlier responses on the connection are complete. Every request passes through here. */
    requestStarted(socket: Socket, response: ServerResponse, serve: () => void): void {
      const connection = open.get(socket)
      if (connection?.acceptsRequests() !== true) return
      const startedMs = performance.now()
      // A response that waits behind another one emits no `close` when its connection ends.
      response.on('close', () => {
        const status = response.writableFinished ? response.statusCode : undefined
        onRequestFinished(response, response.rejection?.status ?? status, performance.now() - startedMs)
        connection.requestFinished()
      })
      connection.requestStarted(response, serve)
      if (waiting.bytes > limits.waitingBytes) closeLargest(one => one.waitingBytes(), limits.waitingBytes)
    },

    /** Sets whether responses from now on, also those to requests in flight, say `Connection: close`. */
    closeAfterResponse(enabled: boolean): void {
      closeAfterResponse = enabled
      for (const connection of open.values()) connection.closeAfterResponse(enabled)
    },

    /** Has the active connections beyond `count` end with their next responses. The oldest ones stay. */
    keepActive(count: number): void {
      for (const connection of active().slice(count)) connection.closeAfterResponse(true)
    },

    /**
     * Ends the connection after the responses that are due, because its input cannot be served.
     * @param respond sends the error response; it is not called if an earlier response ends the connection
     */
    rejectInput(socket: Socket, respond: (replaced?: ServerResponse) => void): void {
      const connection = open.get(socket)
      if (connection !== undefined && socket.writable) connection.rejectInput(respond)
      else if (!socket.writableEnded) socket.destroy()
    },

    /** Ends the connections that have been idle for `idleMs`, counted from `sinceMs` at the earliest. */
    closeIdle(sinceMs: number, idleMs: number): void {
      const nowMs = performance.now()
      for (const [socket, connection] of open) {
        const idleSinceMs = Math.max(sinceMs, connection.idleSinceMs())
        if (connection.isIdle() && nowMs - idleSinceMs >= idleMs) socket.destroySoon()
      }
    },

    destroyAll(): void {
      for (const socket of open.keys()) socket.destroy()
    },

    count: () => open.size,
    /** Returns for how long there has been no connection, in ms. */
    quietMs: () => (open.size > 0 ? 0 : performance.now() - lastEndMs),
    activeCount: () => active().length,
    inFlight: () => [...open.values()].reduce((sum, connection) => sum + connection.inFlight(), 0),
    /** Returns the responses for which clients can only wait, after `ms`. Those that wait for an event are not among them. */
    unanswered: (ms: number): ServerResponse[] =>
      [...open.values()].flatMap(connection => connection.unanswered(ms) ?? []),
  }
}
