// Starts, pauses and stops accepting connections. Connections that were accepted stay open, and those that wait in the queue of
// the socket stay there for other workers. If no other worker is left, the queue is emptied first.
import net, { type Server, type Socket } from 'node:net'
import { type Address, listen, type SocketHandle } from '../core/listen.ts'
import { isEstablished } from './peer.ts'

/** Another worker can accept a connection of this one. After this time, this worker opens the next. */
const RETRY_MS = 20
/** How long a pause leaves new connections to other workers. Clients wait for as long if all others hang. */
const PAUSE_MS = 200

/**
 * Serves the connections that wait in the queue of the socket, and calls `stop` when the queue is empty: a socket that
 * closes resets them. The supervisor has left room for one connection in the queue. After each connection that it
 * accepts, this worker opens one of its own. When that one is in the queue, no other is, and none can follow. A connection that the
 * system confirmed to its client just before the queue was full is lost: it is in no queue.
 */
function emptyQueue(server: Server, stop: () => void): void {
  const own: Socket[] = []
  const address = server.address()
  const open = (): void => {
    if (!server.listening || address === null || typeof address === 'string') {
      clearInterval(timer)
      for (const socket of own) socket.destroy()
      return
    }
    // Some systems establish a connection later. Without a free file descriptor, the queue cannot be emptied.
    const socket = net.connect(address.port, address.address).on('connect', stop).on('error', stop)
    own.push(socket)
    // Node.js connects in the next tick.
    process.nextTick(() => isEstablished(socket) && stop())
  }
  const timer = setInterval(open, RETRY_MS)
  server.on('connection', open)
  open()
}

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
  /** Whether it accepts connections, or does so again after a pause. */
  let isStarted = false
  let isOpening = false
  let pause: NodeJS.Timeout | undefined

  const shouldListen = () => isStarted && pause === undefined

  async function open(): Promise<void> {
    if (isOpening) return
    isOpening = true
    while (shouldListen() && !server.listening) {
      const socket = await requestSocket()
      if (shouldListen()) await listen(server, address, use, 0, socket)
      else socket.close()
    }
    isOpening = false
  }

  function close(): void {
    // `http.Server.close()` would also end idle connections, and so lose requests that are on their way.
    net.Server.prototype.close.call(server)
  }

  function stop(): void {
    isStarted = false
    close()
  }

  return {
    /** Resolves when `server` listens. @throws FatalError if it cannot */
    start(): Promise<void> {
      isStarted = true
      return open()
    },

    /** Leaves new connections to other workers for a moment. Another call does not prolong it. */
    pause(): void {
      close()
      pause ??= setTimeout(() => {
        pause = undefined
        void open()
      }, PAUSE_MS)
    },

    /** Other processes accept the connections that wait. */
    stop,

    /** Stops when no connection waits: no other process will accept it. */
    stopWhenEmpty(): void {
      isStarted = false
      emptyQueue(server, stop)
    },

    isAccepting: () => server.listening,
  }
}
