// The watch over the first new worker of a reload: compares what it answers with what the old workers answer beside it in
// the same time. The rule, `failsMoreOften`, is pure. A reload gives up only for failures, not for slowness or memory:
// decisions/watched-reload.md gives the reasons.
import type { Heartbeat } from '../../core/messages.ts'
import type { FleetEvent } from './events.ts'
import type { Watch } from './fleet-state.ts'
import { hangs, type WorkerView } from './worker-view.ts'

/** The responses of some workers during the watch. */
export interface Figures {
  /** Those that were sent, and those that are missing after UNANSWERED_MS. */
  readonly responses: number
  /** Those with a status of 5xx, and those that are missing. */
  readonly failed: number
}

/** By port label and route, separated by a space. */
type FiguresByRoute = ReadonlyMap<string, Figures>

/** The figures of some workers together. */
interface Total {
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

function sum(figures: Iterable<Figures>): Figures {
  let [responses, failed] = [0, 0]
  for (const one of figures) {
    responses += one.responses
    failed += one.failed
  }
  return { responses, failed }
}

/**
 * Whether the new worker fails clearly more often than the old ones: more than five times, more than three times as often,
 * and more than twice as many times as each of them on average. The old ones count with three more failures than they had.
 * Without a failure in n responses, 3/n is the rate that they may have, with a confidence of 95 % (the rule of three). If all
 * fail equally often, the rule errs in less than one reload of 1000, mostly far less. If the old ones do not fail and answer
 * twice as many requests, it notices a worker that fails one of 20 after about 200 responses, and one that fails always
 * after 9.
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

function merge(all: readonly FiguresByRoute[]): FiguresByRoute {
  const routes = new Set(all.flatMap(figures => [...figures.keys()]))
  return new Map([...routes].map(route => [route, sum(all.flatMap(figures => figures.get(route) ?? []))]))
}

/**
 * @param current the watch that is going on
 * @param now the clock of the fleet
 * @param record receives the outcome
 */
export function createWatcher(
  current: () => Watch | undefined,
  workers: () => readonly WorkerView[],
  now: () => number,
  record: (event: FleetEvent) => void,
) {
  /** The last heartbeats before the watch, by worker id. */
  let before: ReadonlyMap<number, Heartbeat | undefined> = new Map()
  /** The first figures that show a fault of the new worker, and the workers that have sent a heartbeat since. */
  let suspicion: { readonly fresh: FiguresByRoute; readonly heard: Set<number> } | undefined

  const figuresOf = ({ id, heartbeat }: WorkerView) => figuresBetween(before.get(id), heartbeat)
  /** The new worker is among those to be replaced as well if it uses too much memory. */
  const oldWorkers = () => workers().filter(({ id, toBeReplaced }) => toBeReplaced && id !== current()?.id)
  const sumOf = (some: readonly WorkerView[]): Total => ({
    count: some.length,
    figures: merge(some.map(figuresOf)),
  })

  /** Judges the new worker after one of its heartbeats. */
  function judge(worker: WorkerView, { untilMs }: Watch): void {
    const fresh = figuresOf(worker)
    const workersBefore = oldWorkers()
    const old = sumOf(workersBefore)
    const reason = faultOf(fresh, old)
    if (reason === undefined) {
      suspicion = undefined
      if (now() < untilMs) return
      if (worker.heartbeat?.databaseDownMs === undefined) record({ type: 'watchPassed' })
      else record({ type: 'watchFailed', reason: 'the first new worker has lost the database' })
      return
    }
    const wasHeard = (one: WorkerView) => suspicion?.heard.has(one.id) || hangs(one)
    if (suspicion !== undefined && !workersBefore.every(wasHeard)) return
    // What meets all workers is in their heartbeats by now.
    if (suspicion !== undefined && faultOf(suspicion.fresh, old) !== undefined)
      record({ type: 'watchFailed', reason })
    else suspicion = { fresh, heard: new Set() }
  }

  return {
    /** Called when a worker listens: the figures of its watch begin now. */
    listening(id: number): void {
      if (current()?.id !== id) return
      before = new Map(workers().map(one => [one.id, one.heartbeat]))
      suspicion = undefined
    },

    /** Called after each heartbeat. A new worker that hangs sends none, and so never passes. */
    beat(id: number): void {
      const watch = current()
      if (watch === undefined) return
      const worker = workers().find(one => one.id === id)
      if (id === watch.id && worker !== undefined) judge(worker, watch)
      else suspicion?.heard.add(id)
    },

    /** Returns the watch that is going on, as the status shows it. */
    report() {
      const watch = current()
      if (watch === undefined) return undefined
      const fresh = workers().filter(({ id }) => id === watch.id)
      const total = (some: readonly WorkerView[]) => sum(sumOf(some).figures.values())
      return {
        pid: fresh[0]?.pid,
        left_ms: Math.round(Math.max(0, watch.untilMs - now())),
        fresh: total(fresh),
        old: total(oldWorkers()),
      }
    },
  }
}
