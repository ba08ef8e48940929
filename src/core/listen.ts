// Binds a port and listens on it, with retries while a previous process still uses it.
import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import net, { createServer, type Server } from 'node:net'
import { getSystemErrorName } from 'node:util'
import { hasCode } from './error-reason.ts'
import { exitCodes, FatalError } from './exit-codes.ts'
import { retry } from './retry.ts'

declare module 'node:net' {
  /**
   * Binds a socket that does not listen. The result can be sent to workers and closed, like a `Server`; a negative
   * number is a system error. Internal to Node.js: node:cluster creates shared sockets with it (Node.js 20 to 26).
   */
  function _createServerHandle(address: string, port: number, family: number): Server | number
}

const TIMEOUT_MS = 3000
const RETRY_MS = 100

/** Messages by error code. Each one says what to do. */
const reasons: Record<string, string> = {
  EADDRINUSE:
    'the port is already in use, possibly by `npm start` or `npm run dev`; free that port, or choose others in config/ or with NODE_CONFIG',
  EACCES:
    'permission denied; give node the capability CAP_NET_BIND_SERVICE, or choose ports of at least 1024 in config/ or with NODE_CONFIG',
  ENOTFOUND: 'no such host name is known; correct the host in config/ or with NODE_CONFIG',
  EADDRNOTAVAIL: 'this machine has no such address; correct the host in config/ or with NODE_CONFIG',
}

const codeOf = (error: unknown): string => (hasCode(error) ? error.code : String(error))

export interface Address {
  readonly host: string
  readonly port: number
}

/** The socket of a data port in the supervisor. */
export interface DataSocket {
  readonly handle: Server
  /** Whether systemd has passed it: it stays open after the exit, and the next process serves the connections that wait. */
  readonly isInherited: boolean
}

/** The handle of a socket that is bound, maybe by another process. */
export interface SocketHandle {
  close(): void
}

/** Returns an address as it is in URLs. */
export const hostAndPort = ({ host, port }: Address): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

function failure(address: Address, use: string, code: string): FatalError {
  const reason = reasons[code] ?? code
  return new FatalError(exitCodes.portTaken, `cannot listen on ${hostAndPort(address)} (${use}): ${reason}`)
}

/**
 * Listens on `address`.
 * @param use the purpose of the port, for the error message
 * @param timeoutMs milliseconds to retry while the port is in use
 * @param socket a socket that is bound to `address` already
 * @throws FatalError with the port and the reason
 */
export async function listen(
  server: Server,
  address: Address,
  use: string,
  timeoutMs = TIMEOUT_MS,
  socket?: SocketHandle,
): Promise<void> {
  const attempt = async () => {
    server.listen(socket ?? address)
    await once(server, 'listening')
  }
  try {
    await retry(attempt, {
      timeoutMs,
      pauseMs: () => RETRY_MS,
      isTransient: error => hasCode(error, 'EADDRINUSE'),
    })
  } catch (error) {
    throw failure(address, use, codeOf(error))
  }
}

/** Returns the IP address of the host. @throws FatalError like `listen` */
export async function resolveHost(address: Address, use: string): Promise<LookupAddress> {
  return lookup(address.host).catch((error: unknown) => {
    throw failure(address, use, codeOf(error))
  })
}

/** Waits until the port is free. @throws FatalError like `listen` */
export async function untilFree(address: Address, use: string): Promise<void> {
  const server = createServer(socket => socket.destroy())
  await listen(server, address, use)
  server.close()
  await once(server, 'close')
}

/**
 * Binds `address` once it is free, without listening. The socket and the connections in its queue outlive each process
 * that listens on it, until this process closes it or exits.
 * @throws FatalError like `listen`
 */
export async function bind(address: Address, use: string): Promise<DataSocket> {
  await untilFree(address, use)
  const { address: ip, family } = await resolveHost(address, use)
  const socket = net._createServerHandle(ip, address.port, family)
  if (typeof socket === 'number') throw failure(address, use, getSystemErrorName(socket))
  return { handle: socket, isInherited: false }
}

/**
 * Gives up a socket of `bind`. It closes with the last worker that listens on it. From now on, its queue has room for one
 * connection, so that the workers can empty it. Calling it again has no effect. An inherited socket stays as it is.
 */
export function release({ handle, isInherited }: DataSocket): void {
  if (isInherited) return
  // The argument of a handle is the backlog of listen(2). The queue of Linux has room for one connection more.
  handle.listen(0)
  handle.close()
}
