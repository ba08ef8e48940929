// Whether a socket has a peer (getpeername(2)). Node.js reports that it has gone, or come, only in a later turn of the event loop.
import type { Socket } from 'node:net'

declare module 'node:net' {
  interface Socket {
    /** Returns 0 if the socket has a peer (getpeername(2)). Internal to Node.js, see `net._createServerHandle`. */
    readonly _handle?: { getpeername?(address: object): number } | null
  }
}

/**
 * Whether a connection is established. The system connects to a socket of the same machine at once, but the event tells it in
 * a later turn of the event loop, when the connection may be accepted.
 */
export const isEstablished = ({ _handle: handle }: Socket): boolean => handle?.getpeername?.({}) === 0

/**
 * Whether the client has reset the connection: it has no peer any more. Node.js reports it later, when it reads or writes. A Unix
 * socket tells nothing.
 */
export const isGone = ({ destroyed, _handle: handle }: Socket): boolean =>
  destroyed || (handle?.getpeername?.({}) ?? 0) !== 0
