// Starts and stops accepting connections. Connections that were accepted stay open, and those that wait in the queue of
// the socket stay there for other workers.
import net, { type Server } from 'node:net'
import { type Address, listen, type SocketHandle } from '../core/listen.ts'

/**
 * @param use the purpose of the port, for error messages
 * @param requestSocket returns a new handle of the socket that is bound to `address`
 */
export function createAcceptor(
  server: Server,
  address: Address,
  use: string,
  requestSocket: () => Promise<SocketHandle>,
) {
  let isAccepting = false
  let isOpening = false

  return {
    /** Resolves when `server` listens. @throws FatalError if it cannot */
    async start(): Promise<void> {
      isAccepting = true
      if (isOpening) return
      isOpening = true
      while (isAccepting && !server.listening) {
        const socket = await requestSocket()
        if (isAccepting) await listen(server, address, use, 0, socket)
        else socket.close()
      }
      isOpening = false
    },

    stop(): void {
      isAccepting = false
      // `http.Server.close()` would also end idle connections, and so lose requests that are on their way.
      net.Server.prototype.close.call(server)
    },
  }
}
