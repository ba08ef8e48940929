// The listener of one control port. It is open unless the maintenance mode is `refuse`. If another process has taken the
// port, opening is retried every second.
import type { Server } from 'node:http'
import { reasonOf } from '../../core/error-reason.ts'
import { type Address, listen, type SocketHandle } from '../../core/listen.ts'
import type { Log } from '../../core/log.ts'

const RETRY_MS = 1000

interface ControlListenerOptions {
  readonly label: string
  readonly server: Server
  readonly address: Address
  /** A socket that is bound to the address already; undefined if there is none. */
  readonly socket: SocketHandle | undefined
  readonly log: Log
  /** Whether the port should accept connections now. */
  shouldBeOpen(): boolean
}

export function createControlListener(options: ControlListenerOptions) {
  const { label, server, address, socket, log, shouldBeOpen } = options
  const use = `control port of ${label}`
  let lastOperation: Promise<unknown> = Promise.resolve()
  /** Set after a failure. */
  let retry: NodeJS.Timeout | undefined

  /** Runs operations one after another: opening a port is asynchronous. */
  function enqueue<T>(operation: () => Promise<T>): Promise<T> {
    const result = lastOperation.then(operation)
    lastOperation = result
    return result
  }

  async function update(): Promise<string | undefined> {
    clearTimeout(retry)
    try {
      if (!shouldBeOpen()) {
        server.close()
        server.closeAllConnections()
      } else if (!server.listening) {
        await listen(server, address, use, 0, socket)
        if (retry !== undefined) log.warn({ label }, 'control port recovered')
      }
      retry = undefined
      return undefined
    } catch (error) {
      const reason = reasonOf(error)
      if (retry === undefined) log.error({ label, reason }, 'control port cannot be opened, retrying')
      retry = setTimeout(() => enqueue(update), RETRY_MS)
      return reason
    }
  }

  return {
    label,
    /** Opens the port at startup. @throws FatalError if it cannot be opened */
    open: () =>
      enqueue(async () => {
        if (shouldBeOpen()) await listen(server, address, use, undefined, socket)
      }),
    /**
     * Opens or closes the port as required now. A failure to open is retried until it succeeds or the port should be closed.
     * @returns why the port is still closed
     */
    sync: () => enqueue(update),
  }
}
