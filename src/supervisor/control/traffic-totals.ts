// The traffic of the whole cluster: totals over all workers, including those that have exited.
import { type Heartbeat, latencyBoundsMs, type TrafficTotals } from '../../core/messages.ts'

export interface ClusterTotals {
  /** By label. */
  readonly ports: Readonly<Record<string, TrafficTotals>>
  readonly cache: { readonly hits: number; readonly misses: number }
}

const noTraffic: TrafficTotals = {
  responses: {},
  latency: new Array<number>(latencyBoundsMs.length + 1).fill(0),
  latencySumMs: 0,
}

/** Returns `sum` plus the increase from `before` to `now`. */
function advance(sum: TrafficTotals, now: TrafficTotals, before: TrafficTotals = noTraffic): TrafficTotals {
  const responses = { ...sum.responses }
  for (const [outcome, count] of Object.entries(now.responses))
    responses[outcome] = (responses[outcome] ?? 0) + count - (before.responses[outcome] ?? 0)
  return {
    responses,
    latency: now.latency.map((count, at) => (sum.latency[at] ?? 0) + count - (before.latency[at] ?? 0)),
    latencySumMs: sum.latencySumMs + now.latencySumMs - before.latencySumMs,
  }
}

export function createClusterTraffic(labels: readonly string[]) {
  let totals: ClusterTotals = {
    ports: Object.fromEntries(labels.map(label => [label, noTraffic])),
    cache: { hits: 0, misses: 0 },
  }

  return {
    /** @param before the previous heartbeat of the same worker; its counts are already part of the totals */
    heartbeat(now: Heartbeat, before: Heartbeat | undefined): void {
      const ports = { ...totals.ports }
      for (const [label, traffic] of Object.entries(now.traffic))
        ports[label] = advance(ports[label] ?? noTraffic, traffic, before?.traffic[label])
      const { hits, misses } = totals.cache
      totals = {
        ports,
        cache: {
          hits: hits + now.cache.hits - (before?.cache.hits ?? 0),
          misses: misses + now.cache.misses - (before?.cache.misses ?? 0),
        },
      }
    },
    totals: () => totals,
  }
}
