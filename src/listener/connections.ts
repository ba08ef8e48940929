// The connections of one data port: what each one is busy with, and how to let go of them without losing a request.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Connection, createConnection } from './connection.ts'

export interface CloseIdleOptions {
  readonly sinceMs: number
  readonly idleMs: number
  readonly deadlineMs: number
}

/** What is kept in bounds, whoever the clients are. */
export interface ConnectionLimits {
  /** How many connections there may be, and how many requests in flight. */
  readonly connections: number
  /** How many requests one connection may have in flight. */
  readonly pipelined: number
  /** Of all answers that were sent and not taken. */
  readonly unreadBytes: number
}

/** What may become of a request. */
export interface Serving {
  readonly serve: () => void
  readonly turnAway: () => void
}

export type Connections = ReturnType<typeof createConnections>

/**
 * Times are those of `performance.now()`.
 * @param answered is told of each request that is over; the status is undefined where no answer was sent
 */
export function createConnections(
  limits: ConnectionLimits,
  answered: (response: ServerResponse, status: number | undefined, durationMs: number) => void,
) {
  const open = new Map<Socket, Connection>()
  let closeAfterAnswer = false
  let allAdmitted = 0

  function forget(socket: Socket): void {
    // A response that waits behind another one never hears of its connection's end.
    allAdmitted -= open.get(socket)?.admitted ?? 0
    open.delete(socket)
  }

  function cut(socket: Socket): void {
    forget(socket)
    socket.destroy()
  }

  /** Ends the connection that has had no request in flight for longest. @returns whether there was one */
  function makeRoom(): boolean {
    let quietest: Socket | undefined
    let leastMs = Infinity
    for (const [socket, connection] of open) {
      if (connection.inFlight() > 0 || connection.quietSinceMs() >= leastMs) continue
      quietest = socket
      leastMs = connection.quietSinceMs()
    }
    if (quietest !== undefined) cut(quietest)
    return quietest !== undefined
  }

  return {
    /** A newcomer takes the place of an idle connection where there is no other. */
    opened(socket: Socket): void {
      if (open.size >= limits.connections && !makeRoom()) {
        socket.destroy()
        return
      }
      open.set(socket, createConnection(socket))
      socket.once('close', () => forget(socket))
    },

    /** The socket lives on as something else: it is not counted any more. */
    forget,

    /** Every request passes here: there is a bound to what is in flight. */
    began(socket: Socket, response: ServerResponse, { serve, turnAway }: Serving): void {
      const connection = open.get(socket)
      if (connection?.isListening() !== true) return
      // Who is turned away takes no place from others, however many of its answers wait for each other.
      const isAdmitted = connection.admitted < limits.pipelined && allAdmitted < limits.connections
      if (isAdmitted) {
        connection.admitted++
        allAdmitted++
      }
      const beganMs = performance.now()
      response.on('close', () => {
        if (isAdmitted) {
          connection.admitted--
          if (open.has(socket)) allAdmitted--
        }
        const status = response.writableFinished ? response.statusCode : undefined
        answered(response, status, performance.now() - beganMs)
        connection.ended(isAdmitted)
      })
      if (closeAfterAnswer) response.shouldKeepAlive = false
      connection.began(response, isAdmitted ? serve : undefined)
      // At once: answers that cannot be sent yet stop the parser, requests that wait would not.
      if (!isAdmitted) turnAway()
    },

    /** Whether each answer from now on, also one to a request in flight, says `Connection: close`. */
    closeAfterAnswer(yes: boolean): void {
      closeAfterAnswer = yes
      if (yes) for (const connection of open.values()) connection.closeAfterLatest()
    },

    /**
     * The parser has refused what `socket` sent: ends the connection, behind the answers that are due before.
     * @param answer is called in its place, unless one of those ends the connection
     */
    refused(socket: Socket, answer: () => void): void {
      const connection = open.get(socket)
      if (connection !== undefined && socket.writable) connection.refused(answer)
      else if (!socket.writableEnded) socket.destroy()
    },

    /** Ends the connections that have been quiet for `idleMs`, and cuts those that are left at the deadline. */
    closeIdle({ sinceMs, idleMs, deadlineMs }: CloseIdleOptions): void {
      const nowMs = performance.now()
      for (const [socket, connection] of open) {
        const quietSinceMs = Math.max(sinceMs, connection.quietSinceMs())
        if (nowMs - Math.max(sinceMs, connection.openedMs) >= deadlineMs) socket.destroy()
        else if (connection.isIdle() && nowMs - quietSinceMs >= idleMs) socket.destroySoon()
      }
    },

    /** Cuts the connections with the most unread bytes until the others' are within the limit. */
    closeSlowReaders(): void {
      const unread = [...open.keys()].filter(({ writableLength }) => writableLength > 0)
      let bytes = unread.reduce((sum, { writableLength }) => sum + writableLength, 0)
      if (bytes <= limits.unreadBytes) return
      for (const socket of unread.toSorted((a, b) => b.writableLength - a.writableLength)) {
        if (bytes <= limits.unreadBytes) break
        bytes -= socket.writableLength
        cut(socket)
      }
    },

    count: () => open.size,
    inFlight: () => [...open.values()].reduce((sum, one) => sum + one.inFlight(), 0),
  }
}
