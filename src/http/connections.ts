// The connections of one data port: what each one is busy with, and how to let go of them without losing a request.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Connection {
  readonly openedMs: number
  inFlight: number
  /** How many of them were let in, and not turned away at once. */
  admitted: number
  /** The response begun last. */
  latest?: ServerResponse
  quietSinceMs: number
  /** `socket.bytesRead` when it fell quiet: more than that is the beginning of another request. */
  bytesAtRest: number
}

export interface LettingGo {
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
    for (const [socket, { inFlight, quietSinceMs }] of open) {
      if (inFlight > 0 || quietSinceMs >= leastMs) continue
      quietest = socket
      leastMs = quietSinceMs
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
      const nowMs = performance.now()
      open.set(socket, { openedMs: nowMs, inFlight: 0, admitted: 0, quietSinceMs: nowMs, bytesAtRest: 0 })
      socket.once('close', () => forget(socket))
    },

    /** The socket lives on as something else: it is not counted any more. */
    forget,

    /** Every request passes here. @returns whether it may be served: there is a bound to what is in flight */
    began(socket: Socket, response: ServerResponse): boolean {
      const connection = open.get(socket)
      if (connection === undefined) return false
      connection.inFlight++
      // Who is turned away takes no place from others, however many of its answers wait for each other.
      const admitted = connection.admitted < limits.pipelined && allAdmitted < limits.connections
      if (admitted) {
        connection.admitted++
        allAdmitted++
      }
      connection.latest = response
      if (closeAfterAnswer) response.shouldKeepAlive = false
      const beganMs = performance.now()
      response.on('close', () => {
        connection.inFlight--
        if (admitted) {
          connection.admitted--
          if (open.has(socket)) allAdmitted--
        }
        connection.quietSinceMs = performance.now()
        answered(
          response,
          response.writableFinished ? response.statusCode : undefined,
          connection.quietSinceMs - beganMs,
        )
        connection.bytesAtRest = socket.bytesRead
      })
      return admitted
    },

    /** Whether each answer from now on, also one to a request in flight, says `Connection: close`. */
    closeAfterAnswer(yes: boolean): void {
      closeAfterAnswer = yes
      if (!yes) return
      for (const { latest } of open.values())
        if (latest !== undefined && !latest.headersSent) latest.shouldKeepAlive = false
    },

    /** Whether `socket` can take the answer to a request that the parser refused. */
    awaitsAnswer(socket: Socket): boolean {
      const connection = open.get(socket)
      if (connection === undefined || !socket.writable) return false
      return (
        connection.inFlight === 0 || (connection.inFlight === 1 && connection.latest?.headersSent === false)
      )
    },

    /** Ends the connections that have been quiet for `idleMs`, and cuts those that are left at the deadline. */
    letGo({ sinceMs, idleMs, deadlineMs }: LettingGo): void {
      const nowMs = performance.now()
      for (const [socket, connection] of open) {
        const { openedMs, inFlight, quietSinceMs, bytesAtRest } = connection
        const idle = inFlight === 0 && socket.bytesRead === bytesAtRest
        if (nowMs - Math.max(sinceMs, openedMs) >= deadlineMs) socket.destroy()
        else if (idle && nowMs - Math.max(sinceMs, quietSinceMs) >= idleMs) socket.destroySoon()
      }
    },

    /** Cuts the connections with the most unread bytes until the others' are within the limit. */
    letGoOfUnread(): void {
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
    inFlight: () => [...open.values()].reduce((sum, one) => sum + one.inFlight, 0),
  }
}
