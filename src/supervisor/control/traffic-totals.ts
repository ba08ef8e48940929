// The traffic of all workers: totals, including those that have exited.
import { type Heartbeat, latencyBoundsMs, type TrafficTotals } from '../../core/messages.ts'

type TotalsByKey = Readonly<Record<string, TrafficTotals>>

export interface FleetTotals {
  /** By label. */
  readonly ports: TotalsByKey
  /** By label and route. */
  readonly routes: Readonly<Record<string, TotalsByKey>>
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

function advanceAll(sum: TotalsByKey, now: TotalsByKey, before: TotalsByKey | undefined): TotalsByKey {
  const advanced = Object.entries(now).map(
    ([key, traffic]) => [key, advance(sum[key] ?? noTraffic, traffic, before?.[key])] as const,
  )
  return { ...sum, ...Object.fromEntries(advanced) }
}

export type FleetTraffic = ReturnType<typeof createFleetTraffic>

export function createFleetTraffic(labels: readonly string[]) {
  let totals: FleetTotals = {
    ports: Object.fromEntries(labels.map(label => [label, noTraffic])),
    routes: {},
    cache: { hits: 0, misses: 0 },
  }

  return {
    /** @param before the previous heartbeat of the same worker; its counts are already part of the totals */
    heartbeat(now: Heartbeat, before: Heartbeat | undefined): void {
      const routes = Object.fromEntries(
        Object.entries(now.routes).map(([label, byRoute]) => [
          label,
          advanceAll(totals.routes[label] ?? {}, byRoute, before?.routes[label]),
        ]),
      )
      const { hits, misses } = totals.cache
      totals = {
        ports: advanceAll(totals.ports, now.traffic, before?.traffic),
        routes: { ...totals.routes, ...routes },
        cache: {
          hits: hits + now.cache.hits - (before?.cache.hits ?? 0),
          misses: misses + now.cache.misses - (before?.cache.misses ?? 0),
        },
      }
    },
    totals: () => totals,
  }
}
