// Remembers the last requests that arrived at a draining port, so that operators see which proxies still send some.
import type { PortReport } from '../core/messages.ts'
import { canonical } from './client-address.ts'

const WINDOW_MS = 5000
/** Only so many are remembered. If there are more, their rate is computed from the time since the first of these. */
const MAX_REQUESTS = 1000
const MAX_ADDRESSES = 10

interface Arrival {
  /** Of the client or the proxy at the other end; undefined if the connection has ended. */
  readonly address: string | undefined
  readonly atMs: number
}

export type Arrivals = ReturnType<typeof createArrivals>

/** Times are values of `performance.now()`. @param startMs the start of the drain */
export function createArrivals(startMs: number) {
  const last: Arrival[] = []

  return {
    add(arrival: Arrival): void {
      last.push(arrival)
      if (last.length > MAX_REQUESTS) last.shift()
    },

    /** Returns the requests a second of the last seconds, and the addresses that sent most of them. */
    report(nowMs: number): NonNullable<PortReport['arriving']> {
      const recent = last.filter(({ atMs }) => nowMs - atMs < WINDOW_MS)
      const [first] = recent
      if (first === undefined) return { perSecond: 0, addresses: [] }
      const sinceMs = recent.length < MAX_REQUESTS ? Math.max(startMs, nowMs - WINDOW_MS) : first.atMs
      const counts = new Map<string, number>()
      for (const arrival of recent) {
        const address = canonical(arrival.address ?? '')
        if (address !== undefined) counts.set(address, (counts.get(address) ?? 0) + 1)
      }
      const busiest = [...counts].sort(([, one], [, other]) => other - one).map(([address]) => address)
      return {
        perSecond: (recent.length * 1000) / Math.max(1, nowMs - sinceMs),
        addresses: busiest.slice(0, MAX_ADDRESSES),
      }
    },
  }
}
