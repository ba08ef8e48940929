// Listens on a port, patient for a moment: a predecessor may be just leaving it.
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { exitCodes, FatalError } from './exit-codes.ts'
import { retry } from './retry.ts'

const TIMEOUT_MS = 3000
const RETRY_MS = 100

/** Each says what to do. */
const reasons: Record<string, string> = {
  EADDRINUSE:
    'another process listens there, perhaps of `npm start` or `npm run dev`; free that port, or choose others in config/ or with NODE_CONFIG',
  EACCES:
    'permission denied; start it as root, give node the capability CAP_NET_BIND_SERVICE, or choose ports from 1024 in config/ or with NODE_CONFIG',
  EADDRNOTAVAIL: 'this machine has no such address; correct the host in config/ or with NODE_CONFIG',
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}

export interface Address {
  readonly host: string
  readonly port: number
  /** A socket of its own beside others on the same port; the kernel chooses among them. Since Node 22.12. */
  readonly reusePort?: boolean
}

/**
 * @param use what the port is for, in words: it stands in the error's message
 * @param timeoutMs for how long a port that is taken is tried again; 0 inside a cluster, which allows no second attempt
 * @throws FatalError that names the port and the reason
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

/** Waits until `listen` can have the port. @throws FatalError as it does */
export async function untilFree(address: Address, use: string): Promise<void> {
  const server = createServer(socket => socket.destroy())
  await listen(server, address, use)
  server.close()
  await once(server, 'close')
}
