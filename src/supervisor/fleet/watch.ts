// The watch over the first new worker of a reload: compares what it answers with what the old workers answer beside it in
// the same time. `judge` is pure. A reload gives up only for evidence that does not depend on the share of the traffic:
// decisions/watched-reload.md gives the reasons.
import type { Heartbeat } from '../../core/messages.ts'
import type { FleetEvent } from './fleet.ts'
import type { Watch } from './fleet-state.ts'
import { databaseDownMs, type WorkerView } from './worker-handle.ts'

/** The responses of some workers during the watch. */
export interface Figures {
  /** Those that were sent, and those that are missing after UNANSWERED_MS. */
  readonly responses: number
  /** Those with a status of 5xx, and those that are missing. */
  readonly failed: number
}

/** By port label and route, separated by a space. */
export type FiguresByRoute = ReadonlyMap<string, Figures>

export type Verdict = { readonly do: 'wait' | 'go on' } | { readonly do: 'give up'; readonly reason: string }

/** So few failures are no evidence. */
const FEW_FAILED = 5
/** The new worker may fail so many times as often as the old ones: an outage does not meet all workers alike. */
const TOLERANCE = 3
const RULE_OF_THREE = 3
/** A database that does not answer for a shorter time is no evidence: one check of a busy server can be late. */
const LOST_MS = 1000

function sum(figures: Iterable<Figures>): Figures {
  let [responses, failed] = [0, 0]
  for (const one of figures) {
    responses += one.responses
    failed += one.failed
  }
  return { responses, failed }
}

/**
 * Whether the new worker fails clearly more often than the old ones: more than five times, and more than three times
 * as often. The old ones count with three more failures than they had. Without a failure in n responses, 3/n is the rate
 * that they may have, with a confidence of 95 % (the rule of three). If all fail equally often, the rule errs in less than
 * one reload of 1000, mostly far less. If the old ones do not fail and answer twice as many requests, it notices a worker
 * that fails one of 20 after about 350 responses, and one that fails always after 15.
 */
export function failsMoreOften(fresh: Figures, old: Figures): boolean {
  const oldRate = (old.failed + RULE_OF_THREE) / (old.responses + RULE_OF_THREE)
  return fresh.failed > FEW_FAILED + TOLERANCE * oldRate * fresh.responses
}

/** For how long workers have been without their database, in milliseconds; undefined for those that have it. */
export interface WithoutDatabase {
  readonly fresh: number | undefined
  readonly old: readonly (number | undefined)[]
}

/** Whether the new worker alone has lost the database, or does not have it at the end. */
function hasLostDatabase({ fresh, old }: WithoutDatabase, isOver: boolean): boolean {
  if (fresh === undefined) return false
  return isOver || (fresh >= LOST_MS && old.includes(undefined))
}

/**
 * Returns what the reload does next. Each route is compared, because workers can get different requests, and their sum,
 * because a route can be new.
 * @param isOver whether the time of the watch is over
 */
export function judge(
  fresh: FiguresByRoute,
  old: FiguresByRoute,
  withoutDatabase: WithoutDatabase,
  isOver: boolean,
): Verdict {
  if (hasLostDatabase(withoutDatabase, isOver))
    return { do: 'give up', reason: 'the first new worker has lost the database' }
  const pairs = [...fresh].map(([route, figures]) => [route, figures, old.get(route)] as const)
  const all = ['all requests', sum(fresh.values()), sum(old.values())] as const
  for (const [route, now, before = { responses: 0, failed: 0 }] of [...pairs, all])
    if (failsMoreOften(now, before))
      return {
        do: 'give up',
        reason: `the first new worker answered 5xx, or nothing, to ${now.failed} of ${now.responses} requests, the old ones to ${before.failed} of ${before.responses} (${route})`,
      }
  return { do: isOver ? 'go on' : 'wait' }
}

/** Returns the responses between two heartbeats of a worker, and those that are missing at the second one. */
export function figuresBetween(before: Heartbeat | undefined, now: Heartbeat | undefined): FiguresByRoute {
  const figures = new Map<string, Figures>()
  for (const [label, routes] of Object.entries(now?.routes ?? {})) {
    const missing = now?.ports[label]?.unanswered ?? {}
    for (const route of new Set([...Object.keys(routes), ...Object.keys(missing)])) {
      const earlier = before?.routes?.[label]?.[route]?.responses ?? {}
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

function merge(all: readonly FiguresByRoute[]): FiguresByRoute {
  const routes = new Set(all.flatMap(figures => [...figures.keys()]))
  return new Map([...routes].map(route => [route, sum(all.flatMap(figures => figures.get(route) ?? []))]))
}

/**
 * @param current the watch that is going on
 * @param record receives the outcome
 */
export function createWatcher(
  current: () => Watch | undefined,
  workers: () => readonly WorkerView[],
  record: (event: FleetEvent) => void,
) {
  /** The last heartbeats before the watch, by worker id. */
  let before: ReadonlyMap<number, Heartbeat | undefined> = new Map()
  let watched: number | undefined

  const freshWorkers = () => workers().filter(({ id }) => id === watched)
  const oldWorkers = () => workers().filter(({ toBeReplaced }) => toBeReplaced)

  function figures(): { fresh: FiguresByRoute; old: FiguresByRoute } {
    const of = ({ id, heartbeat }: WorkerView) => figuresBetween(before.get(id), heartbeat)
    return { fresh: merge(freshWorkers().map(of)), old: merge(oldWorkers().map(of)) }
  }

  return {
    /** Called when a worker listens: the figures of its watch begin now. */
    listening(id: number): void {
      if (current()?.id !== id) return
      before = new Map(workers().map(one => [one.id, one.heartbeat]))
      watched = id
    },

    /** Judges the worker after each of its heartbeats. A worker that hangs sends none, and so never passes. */
    beat(id: number): void {
      const watch = current()
      if (watch?.id !== id) return
      const { fresh, old } = figures()
      const withoutDatabase = {
        fresh: freshWorkers().map(databaseDownMs)[0],
        old: oldWorkers().map(databaseDownMs),
      }
      const verdict = judge(fresh, old, withoutDatabase, performance.now() >= watch.untilMs)
      if (verdict.do === 'go on') record({ type: 'watchPassed' })
      if (verdict.do === 'give up') record({ type: 'watchFailed', reason: verdict.reason })
    },

    /** Returns the state of the watch that is going on. */
    report() {
      const watch = current()
      if (watch === undefined) return undefined
      const { fresh, old } = figures()
      const leftMs = Math.max(0, watch.untilMs - performance.now())
      return { id: watch.id, leftMs, fresh: sum(fresh.values()), old: sum(old.values()) }
    },
  }
}
