// Counters of the responses of one data port, by route. They only increase.
import { latencyBoundsMs, NO_ROUTE, type TrafficTotals } from '../core/messages.ts'
import { addTraffic, noTraffic } from '../core/traffic-totals.ts'

interface Counters {
  readonly responses: Record<string, number>
  readonly latency: number[]
  latencySumMs: number
}

const createCounters = (): Counters => ({
  responses: { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 },
  latency: new Array<number>(latencyBoundsMs.length + 1).fill(0),
  latencySumMs: 0,
})

export function createTraffic() {
  const byRoute = new Map([[NO_ROUTE, createCounters()]])

  function countersOf(route: string): Counters {
    const known = byRoute.get(route)
    if (known !== undefined) return known
    const counters = createCounters()
    byRoute.set(route, counters)
    return counters
  }

  return {
    /**
     * @param route the path pattern of the matched route; undefined if none matches
     * @param status undefined if the connection ended before the response was complete
     * @param durationMs undefined if it says nothing about the service
     */
    recordResponse(
      route: string | undefined,
      status: number | undefined,
      durationMs: number | undefined,
    ): void {
      const counters = countersOf(route ?? NO_ROUTE)
      const outcome = status === undefined ? 'aborted' : `${Math.floor(status / 100)}xx`
      counters.responses[outcome] = (counters.responses[outcome] ?? 0) + 1
      if (durationMs === undefined) return
      const fits = latencyBoundsMs.findIndex(boundMs => durationMs <= boundMs)
      const bucket = fits === -1 ? latencyBoundsMs.length : fits
      counters.latency[bucket] = (counters.latency[bucket] ?? 0) + 1
      counters.latencySumMs += durationMs
    },
    /** Returns the sums over all routes. */
    totals: (): TrafficTotals => [...byRoute.values()].reduce(addTraffic, noTraffic),
    /** Returns the totals of NO_ROUTE, and of each route that has had a response. */
    routes: (): Record<string, TrafficTotals> =>
      Object.fromEntries([...byRoute].map(([route, counters]) => [route, addTraffic(noTraffic, counters)])),
  }
}
