// Counters of the responses of one data port. They only increase.
import { latencyBoundsMs, type TrafficTotals } from '../core/messages.ts'

export function createTraffic() {
  const responses: Record<string, number> = { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 }
  const latency = new Array<number>(latencyBoundsMs.length + 1).fill(0)
  let latencySumMs = 0

  function count(outcome: string): void {
    responses[outcome] = (responses[outcome] ?? 0) + 1
  }

  return {
    /** @param status undefined if the connection ended before the response was complete */
    recordResponse(status: number | undefined, durationMs: number): void {
      count(status === undefined ? 'aborted' : `${Math.floor(status / 100)}xx`)
      const fits = latencyBoundsMs.findIndex(boundMs => durationMs <= boundMs)
      const bucket = fits === -1 ? latencyBoundsMs.length : fits
      latency[bucket] = (latency[bucket] ?? 0) + 1
      latencySumMs += durationMs
    },
    /** Counts rejected input. It has a status but no duration, because no request was processed. */
    recordRejection(status: number): void {
      count(`${Math.floor(status / 100)}xx`)
    },
    totals: (): TrafficTotals => ({ responses: { ...responses }, latency: [...latency], latencySumMs }),
  }
}
