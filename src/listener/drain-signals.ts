// The signals that end responses which wait for something, so that neither a drain nor a stop waits for them.
import { setMaxListeners } from 'node:events'
import type { ListenerState } from '../core/messages.ts'

declare module 'node:http' {
  interface ServerResponse {
    /** Aborted when the port drains: a request that only waits is answered now. */
    draining?: AbortSignal
    /** Whether the response waits, as its request asks, for something to happen. Its duration says nothing about the service. */
    awaitsEvent?: boolean
    /**
     * Aborted when `drain.delayMs` is over, so that proxies have noticed the drain, and when the port closes: a response
     * without an end is ended now.
     */
    drainDelayOver?: AbortSignal
  }
}

/** Responses share a signal until it is aborted. */
function createSignal(): AbortController {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal)
  return controller
}

/** @param delayMs the drain delay in milliseconds */
export function createDrainSignals(delayMs: number) {
  let draining = createSignal()
  let drainDelayOver = createSignal()
  let timer: NodeJS.Timeout | undefined

  return {
    /** Returns the signals for a response that begins now. */
    current: () => ({ draining: draining.signal, drainDelayOver: drainDelayOver.signal }),

    setState(state: ListenerState): void {
      clearTimeout(timer)
      if (state === 'serving') {
        if (draining.signal.aborted) draining = createSignal()
        if (drainDelayOver.signal.aborted) drainDelayOver = createSignal()
        return
      }
      draining.abort()
      if (state === 'closing') drainDelayOver.abort()
      else timer = setTimeout(() => drainDelayOver.abort(), delayMs).unref()
    },
  }
}
