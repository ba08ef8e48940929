// The connections of one data port: what each one is busy with, and how to let go of them without losing a request.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

interface Connection {
  readonly openedMs: number
  inFlight: number
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

export type Connections = ReturnType<typeof createConnections>

/**
 * Times are those of `performance.now()`.
 * @param answered is told of each request that is over; the status is undefined where no answer was sent
 */
export function createConnections(
  answered: (response: ServerResponse, status: number | undefined, durationMs: number) => void,
) {
  const open = new Map<Socket, Connection>()
  let closeAfterAnswer = false

  return {
    opened(socket: Socket): void {
      const nowMs = performance.now()
      open.set(socket, { openedMs: nowMs, inFlight: 0, quietSinceMs: nowMs, bytesAtRest: 0 })
      socket.once('close', () => open.delete(socket))
    },

    /** The socket lives on as something else: it is not counted any more. */
    forget(socket: Socket): void {
      open.delete(socket)
    },

    /** Every request passes here. */
    began(socket: Socket, response: ServerResponse): void {
      const connection = open.get(socket)
      if (connection === undefined) return
      connection.inFlight++
      connection.latest = response
      if (closeAfterAnswer) response.shouldKeepAlive = false
      const beganMs = performance.now()
      response.on('close', () => {
        connection.inFlight--
        connection.quietSinceMs = performance.now()
        answered(
          response,
          response.writableFinished ? response.statusCode : undefined,
          connection.quietSinceMs - beganMs,
        )
        connection.bytesAtRest = socket.bytesRead
      })
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

    count: () => open.size,

    inFlight(): number {
      let sum = 0
      for (const connection of open.values()) sum += connection.inFlight
      return sum
    },
  }
}
