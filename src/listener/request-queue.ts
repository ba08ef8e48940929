// The requests in flight on one connection, which are served one after the other, and the memory of those that wait.
import type { ServerResponse } from 'node:http'
import { waitingSize } from './request-size.ts'

/** Above this size of its waiting requests, nothing more is read from a connection. */
const MAX_WAITING_BYTES = 204_800

/** The size of the requests of a port that wait for earlier responses on their connections. */
export interface WaitingTotal {
  bytes: number
  /** Above this size, no connection with waiting requests is read. */
  readonly highBytes: number
}

interface QueuedRequest {
  readonly response: ServerResponse
  /** Whether the request allows others after it on this connection. */
  readonly keepAlive: boolean
  readonly serve: () => void
}

/** @param total is changed by the requests of this connection */
export function createRequestQueue(total: WaitingTotal) {
  /** In the order of their arrival. The first one is being served, the others wait. */
  const requests: QueuedRequest[] = []
  /** The sizes of those that wait. */
  const sizes: number[] = []
  let waitingBytes = 0

  function count(bytes: number): void {
    waitingBytes += bytes
    total.bytes += bytes
  }

  return {
    length: () => requests.length,
    first: () => requests[0],
    hasWaiting: () => sizes.length > 0,
    waitingBytes: () => waitingBytes,
    isFull: () => waitingBytes > MAX_WAITING_BYTES || (waitingBytes > 0 && total.bytes > total.highBytes),

    push(request: QueuedRequest): void {
      if (requests.push(request) === 1) return
      const size = waitingSize(request.response.req)
      sizes.push(size)
      count(size)
    },

    /** Removes the first request, which has been served. */
    shift(): QueuedRequest | undefined {
      count(-(sizes.shift() ?? 0))
      return requests.shift()
    },

    /** Removes the last request, which waits. */
    pop(): void {
      count(-(sizes.pop() ?? 0))
      requests.pop()
    },

    /** Removes the requests that wait. */
    dropWaiting(): void {
      sizes.length = 0
      requests.splice(1)
      count(-waitingBytes)
    },
  }
}
