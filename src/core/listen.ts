// Listens on a port, with retries while a previous process still uses it.
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { exitCodes, FatalError } from './exit-codes.ts'
import { retry } from './retry.ts'

const TIMEOUT_MS = 3000
const RETRY_MS = 100

/** Messages by error code. Each one says what to do. */
const reasons: Record<string, string> = {
  EADDRINUSE:
    'the port is already in use, possibly by `npm start` or `npm run dev`; free that port, or choose others in config/ or with NODE_CONFIG',
  EACCES:
    'permission denied; start it as root, give node the capability CAP_NET_BIND_SERVICE, or choose ports of at least 1024 in config/ or with NODE_CONFIG',
  EADDRNOTAVAIL: 'this machine has no such address; correct the host in config/ or with NODE_CONFIG',
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}

export interface Address {
  readonly host: string
  readonly port: number
  /** Shares the port with other sockets; the kernel distributes the connections. Since Node.js 22.12. */
  readonly reusePort?: boolean
}

/**
 * Listens on `address`.
 * @param use the purpose of the port, for the error message
 * @param timeoutMs milliseconds to retry while the port is in use; 0 in a cluster worker, which cannot retry
 * @throws FatalError with the port and the reason
 */
export async function listen(
  server: Server,
  address: Address,
  use: string,
  timeoutMs = TIMEOUT_MS,
): Promise<void> {
  const attempt = async () => {
    server.listen(address)
    await once(server, 'listening')
  }
  try {
    await retry(attempt, {
      timeoutMs,
      pauseMs: () => RETRY_MS,
      isTransient: error => timeoutMs > 0 && codeOf(error) === 'EADDRINUSE',
    })
  } catch (error) {
    const code = codeOf(error)
    const { host, port } = address
    throw new FatalError(
      exitCodes.portTaken,
      `cannot listen on ${host}:${port} (${use}): ${reasons[code] ?? code}`,
    )
  }
}

/** Waits until the port is free. @throws FatalError like `listen` */
export async function untilFree(address: Address, use: string): Promise<void> {
  const server = createServer(socket => socket.destroy())
  await listen(server, address, use)
  server.close()
  await once(server, 'close')
}
