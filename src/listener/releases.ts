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

/** All responses since the last time that a signal was given share one. */
function createSignal(): AbortController {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal)
  return controller
}

/** @param delayMs milliseconds from the drain until responses without an end are ended */
export function createReleases(delayMs: number) {
  let draining = createSignal()
  let leaving = createSignal()
  let timer: NodeJS.Timeout | undefined

  return {
    /** Returns the signals for a response. */
    signals: () => ({ draining: draining.signal, leaving: leaving.signal }),

    setState(state: ListenerState): void {
      clearTimeout(timer)
      if (state === 'serving') {
        if (draining.signal.aborted) draining = createSignal()
        if (leaving.signal.aborted) leaving = createSignal()
        return
      }
      draining.abort()
      if (state === 'closing') leaving.abort()
      else timer = setTimeout(() => leaving.abort(), delayMs).unref()
    },
  }
}
