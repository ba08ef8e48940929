// Tells responses that wait for something when to end, so that a drain and a stop do not wait for them.
import { setMaxListeners } from 'node:events'
import type { ListenerState } from '../core/messages.ts'

declare module 'node:http' {
  interface ServerResponse {
    /** Aborted when the port drains: a request that only waits is answered now. */
    draining?: AbortSignal
    /** Whether the response waits, as its request asks, for something to happen. Its duration says nothing about the service. */
    awaitsEvent?: boolean
    /**
     * Aborted `drain.delayMs` later, when proxies have noticed that the port drains, and when the port closes: a response
     * without an end is ended now.
     */
    leaving?: AbortSignal
  }
}

/** A signal that can be given again. The responses since the last time share one AbortSignal. */
function createRelease() {
  let controller = new AbortController()
  setMaxListeners(0, controller.signal)
  return {
    signal: () => controller.signal,
    give: () => controller.abort(),
    renew(): void {
      if (!controller.signal.aborted) return
      controller = new AbortController()
      setMaxListeners(0, controller.signal)
    },
  }
}

export function createReleases(delayMs: number) {
  const draining = createRelease()
  const leaving = createRelease()
  let timer: NodeJS.Timeout | undefined

  return {
    /** Returns the signals for a response. */
    signals: () => ({ draining: draining.signal(), leaving: leaving.signal() }),

    setState(state: ListenerState): void {
      clearTimeout(timer)
      if (state === 'serving') {
        draining.renew()
        leaving.renew()
        return
      }
      draining.give()
      if (state === 'closing') leaving.give()
      else timer = setTimeout(leaving.give, delayMs).unref()
    },
  }
}
