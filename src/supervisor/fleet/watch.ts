// The watch over the first new worker of a reload: compares what it answers with what the old workers answer beside it in
// the same time. The functions are pure: the watch is part of the fleet's state.
import { type FiguresByRoute, faultOf, figuresBetween, merge, sum, type Total } from './figures.ts'
import { type FleetState, type FleetWorker, type Reload, type Watch, watchOf } from './fleet-state.ts'
import { hangs, viewOf } from './worker-view.ts'

const figuresOf = ({ before }: Watch, { id, heartbeat }: FleetWorker): FiguresByRoute =>
  figuresBetween(before.get(id), heartbeat)

const totalOf = (watch: Watch, workers: readonly FleetWorker[]): Total => ({
  count: workers.length,
  figures: merge(workers.map(worker => figuresOf(watch, worker))),
})

const oldWorkers = ({ workers }: FleetState): FleetWorker[] =>
  workers.filter(({ toBeReplaced }) => toBeReplaced)

/** Starts the watch of a worker that listens: its figures begin now. */
export const startWatch = ({ workers }: FleetState, id: number, untilMs: number): Watch => ({
  id,
  untilMs,
  before: new Map(workers.map(one => [one.id, one.heartbeat])),
})

/** Returns the reload while the new worker does no worse than the old ones. At the end of the watch, it must have its database. */
function afterGoodFigures(watch: Watch, { heartbeat }: FleetWorker, nowMs: number): Reload {
  if (nowMs < watch.untilMs) return { state: 'running', watch: { ...watch, suspicion: undefined } }
  return heartbeat?.databaseDownMs === undefined
    ? { state: 'running' }
    : { state: 'failed', reason: 'the first new worker has lost the database' }
}

/**
 * Judges the new worker after one of its heartbeats. What meets all workers, such as an outage, is in the heartbeats of the old
 * ones a moment later. So a fault is only a suspicion until each of them has sent one, or hangs.
 * @returns the reload after it
 */
function judge(fleet: FleetState, watch: Watch, worker: FleetWorker, beatMs: number, nowMs: number): Reload {
  const fresh = figuresOf(watch, worker)
  const oldOnes = oldWorkers(fleet)
  const old = totalOf(watch, oldOnes)
  const reason = faultOf(fresh, old)
  if (reason === undefined) return afterGoodFigures(watch, worker, nowMs)
  const { suspicion } = watch
  const suspected: Reload = { state: 'running', watch: { ...watch, suspicion: { fresh, heard: [] } } }
  if (suspicion === undefined) return suspected
  const isHeard = (one: FleetWorker) => suspicion.heard.includes(one.id) || hangs(viewOf(one, beatMs, nowMs))
  if (!oldOnes.every(isHeard)) return fleet.reload
  return faultOf(suspicion.fresh, old) === undefined ? suspected : { state: 'failed', reason }
}

/** Returns the reload after a heartbeat. A new worker that hangs sends none, and so never passes. @param id that of the sender */
export function afterHeartbeat(
  fleet: FleetState,
  watch: Watch,
  id: number,
  beatMs: number,
  nowMs: number,
): Reload {
  const worker = fleet.workers.find(one => one.id === watch.id)
  if (id === watch.id && worker !== undefined) return judge(fleet, watch, worker, beatMs, nowMs)
  const { suspicion } = watch
  const heard = [...(suspicion?.heard ?? []), id]
  return { state: 'running', watch: { ...watch, suspicion: suspicion && { ...suspicion, heard } } }
}

/** Returns the watch that is going on, as the status shows it; undefined without one. */
export function describeWatch(fleet: FleetState, nowMs: number) {
  const watch = watchOf(fleet)
  if (watch === undefined) return undefined
  const fresh = fleet.workers.filter(({ id }) => id === watch.id)
  const total = (some: readonly FleetWorker[]) => sum(totalOf(watch, some).figures.values())
  return {
    pid: fresh[0]?.pid,
    left_ms: Math.round(Math.max(0, watch.untilMs - nowMs)),
    fresh: total(fresh),
    old: total(oldWorkers(fleet)),
  }
}
