// The traffic of several workers together.
import type { Heartbeat, TrafficTotals } from '../../core/messages.ts'
import { addTraffic, mergeByKey } from '../../core/traffic-totals.ts'

type TotalsByKey = Readonly<Record<string, TrafficTotals>>

export interface FleetTotals {
  /** By label. */
  readonly ports: TotalsByKey
  /** By label and route. */
  readonly routes: Readonly<Record<string, TotalsByKey>>
  readonly cache: { readonly hits: number; readonly misses: number }
}

export const noTotals: FleetTotals = { ports: {}, routes: {}, cache: { hits: 0, misses: 0 } }

/** Adds what a worker has reported. @param last its last heartbeat, if it has sent one */
export function addWorker(totals: FleetTotals, last: Heartbeat | undefined): FleetTotals {
  if (last === undefined) return totals
  const { ports, routes, cache } = totals
  return {
    ports: mergeByKey(ports, last.traffic, addTraffic),
    routes: mergeByKey(routes, last.routes, (one, other) => mergeByKey(one, other, addTraffic)),
    cache: { hits: cache.hits + last.cache.hits, misses: cache.misses + last.cache.misses },
  }
}
