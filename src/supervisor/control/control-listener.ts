// The listener of one control port: open or closed as the maintenance wants it, also where another process is in its way.
import type { Server } from 'node:http'
import { type Address, listen } from '../../core/listen.ts'
import type { Log } from '../../core/log.ts'

const RETRY_MS = 1000

export interface ControlListenerOptions {
  readonly label: string
  readonly server: Server
  readonly address: Address
  readonly log: Log
  /** Whether it should accept connections now. */
  isWanted(): boolean
}

export function createControlListener({ label, server, address, log, isWanted }: ControlListenerOptions) {
  const use = `control port of ${label}`
  let last: Promise<unknown> = Promise.resolve()
  let retry: NodeJS.Timeout | undefined
  let isBlocked = false

  /** One after another: opening may take its time. */
  function inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = last.then(act, act)
    last = turn
    return turn
  }

  async function update(): Promise<string | undefined> {
    clearTimeout(retry)
    try {
      if (!isWanted()) {
        server.close()
        server.closeAllConnections()
      } else if (!server.listening) await listen(server, address, use, 0)
      if (isBlocked) log.warn({ label }, 'the control port is as it should be again')
      isBlocked = false
      return undefined
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      if (!isBlocked) log.error({ label, reason }, 'the control port stays closed, and is tried again')
      isBlocked = true
      retry = setTimeout(() => inTurn(update), RETRY_MS)
      return reason
    }
  }

  return {
    label,
    /** For the start. @throws FatalError where it cannot be opened */
    open: () =>
      inTurn(async () => {
        if (isWanted()) await listen(server, address, use)
      }),
    /**
     * Opens or closes it as is wanted now. Where it cannot be opened that is tried again, until it can or need not.
     * @returns why it is still closed
     */
    sync: () => inTurn(update),
  }
}
