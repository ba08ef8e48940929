// Sums of what workers report about their traffic.
import { latencyBoundsMs, type TrafficTotals } from './messages.ts'

type ByKey<T> = Readonly<Record<string, T>>

export const noTraffic: TrafficTotals = {
  responses: {},
  latency: new Array<number>(latencyBoundsMs.length + 1).fill(0),
  latencySumMs: 0,
}

/** Returns the members of both objects. @param add combines two members with the same name */
export function mergeByKey<T>(
  one: ByKey<T>,
  other: ByKey<T>,
  add: (one: T, other: T) => T,
): Record<string, T> {
  const merged = { ...one }
  for (const [key, value] of Object.entries(other)) {
    const known = merged[key]
    merged[key] = known === undefined ? value : add(known, value)
  }
  return merged
}

export const addTraffic = (one: TrafficTotals, other: TrafficTotals): TrafficTotals => ({
  responses: mergeByKey(one.responses, other.responses, (count, more) => count + more),
  latency: one.latency.map((count, at) => count + (other.latency[at] ?? 0)),
  latencySumMs: one.latencySumMs + other.latencySumMs,
})
