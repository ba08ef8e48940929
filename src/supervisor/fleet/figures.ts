// The figures by which the first new worker of a reload is compared with the old ones, and the rule: `failsMoreOften`. A reload gives
// up only for failures, not for slowness or memory: decisions/watched-reload.md gives the reasons.
import type { Heartbeat } from '../../core/messages.ts'

/** The responses of some workers during the watch. */
export interface Figures {
  /** Those that were sent, and those that are missing after UNANSWERED_MS. */
  readonly responses: number
  /** Those with a status of 5xx, and those that are missing. */
  readonly failed: number
}

/** By port label and route, separated by a space. */
export type FiguresByRoute = ReadonlyMap<string, Figures>

/** The figures of some workers together. */
export interface Total {
  readonly count: number
  readonly figures: FiguresByRoute
}

/** Up to this number, failures are no evidence. */
const FEW_FAILED = 5
/** The new worker may fail so many times as often as the old ones: an outage does not meet all workers alike. */
const TOLERANCE = 3
const RULE_OF_THREE = 3
/**
 * All requests in progress can fail in a stall, also those of a worker that has sent few responses before. So numbers are
 * compared as well as rates.
 */
const TOLERANCE_OF_COUNT = 2

export function sum(figures: Iterable<Figures>): Figures {
  let [responses, failed] = [0, 0]
  for (const one of figures) {
    responses += one.responses
    failed += one.failed
  }
  return { responses, failed }
}

/**
 * Whether the new worker fails clearly more often than the old ones: it has failed more often than three times their rate
 * explains, by more than five failures, and more than twice as many times as each of them on average. The old ones count with
 * three more failures than they had. Without a failure in n responses, 3/n is the rate that they may have, with a confidence
 * of 95 % (the rule of three). If all fail equally often, the rule errs in less than one reload of 1000, mostly far less. If
 * the old ones do not fail and answer twice as many requests, it notices a worker that fails one of 20 after about 200
 * responses, and one that fails always after 9.
 */
export function failsMoreOften(fresh: Figures, old: Figures, oldCount: number): boolean {
  const oldRate = (old.failed + RULE_OF_THREE) / (old.responses + RULE_OF_THREE)
  return (
    fresh.failed > FEW_FAILED + TOLERANCE * oldRate * fresh.responses &&
    fresh.failed * oldCount > TOLERANCE_OF_COUNT * old.failed
  )
}

/**
 * Returns why the new worker is worse than the old ones; undefined if it is not. Each route is compared, because workers can
 * get different requests, and their sum, because a route can be new.
 */
export function faultOf(fresh: FiguresByRoute, old: Total): string | undefined {
  const pairs = [...fresh].map(([route, figures]) => [route, figures, old.figures.get(route)] as const)
  const all = ['all requests', sum(fresh.values()), sum(old.figures.values())] as const
  for (const [route, now, before = { responses: 0, failed: 0 }] of [...pairs, all])
    if (failsMoreOften(now, before, old.count))
      return `the first new worker answered 5xx, or nothing, to ${now.failed} of ${now.responses} requests, the old ones to ${before.failed} of ${before.responses} (${route})`
  return undefined
}

/** Returns the responses between two heartbeats of a worker, and those that are missing at the second one. */
export function figuresBetween(before: Heartbeat | undefined, now: Heartbeat | undefined): FiguresByRoute {
  const figures = new Map<string, Figures>()
  for (const [label, routes] of Object.entries(now?.routes ?? {})) {
    const missing = now?.ports[label]?.unanswered ?? {}
    for (const route of new Set([...Object.keys(routes), ...Object.keys(missing)])) {
      const earlier = before?.routes[label]?.[route]?.responses ?? {}
      const open = missing[route] ?? 0
      let [responses, failed] = [open, open]
      for (const [outcome, count] of Object.entries(routes[route]?.responses ?? {})) {
        const grown = count - (earlier[outcome] ?? 0)
        responses += grown
        if (outcome === '5xx') failed += grown
      }
      figures.set(`${label} ${route}`, { responses, failed })
    }
  }
  return figures
}

export function merge(all: readonly FiguresByRoute[]): FiguresByRoute {
  const routes = new Set(all.flatMap(figures => [...figures.keys()]))
  return new Map([...routes].map(route => [route, sum(all.flatMap(figures => figures.get(route) ?? []))]))
}
