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

interface SizedRequest extends QueuedRequest {
  /** The memory that it takes, which counts while it is not the first one. */
  readonly size: number
}

/** @param total is changed by the requests of this connection */
export function createRequestQueue(total: WaitingTotal) {
  /** In the order of their arrival. The first one is being served, the others wait. */
  const requests: SizedRequest[] = []
  let waitingBytes = 0

  function count(bytes: number): void {
    waitingBytes += bytes
    total.bytes += bytes
  }

  return {
    length: () => requests.length,
    first: (): QueuedRequest | undefined => requests[0],
    hasWaiting: () => requests.length > 1,
    waitingBytes: () => waitingBytes,
    isFull: () => waitingBytes > MAX_WAITING_BYTES || (waitingBytes > 0 && total.bytes > total.highBytes),

    push(request: QueuedRequest): void {
      const size = requests.length === 0 ? 0 : waitingSize(request.response.req)
      requests.push({ size, ...request })
      count(size)
    },

    /** Removes the first request, which has been served. */
    shift(): QueuedRequest | undefined {
      const served = requests.shift()
      // The next one waits no longer.
      count(-(requests[0]?.size ?? 0))
      return served
    },

    /** Removes the last request, which waits. */
    pop(): void {
      count(-(requests.pop()?.size ?? 0))
    },

    /** Removes the requests that wait. */
    dropWaiting(): void {
      requests.splice(1)
      count(-waitingBytes)
    },
  }
}
