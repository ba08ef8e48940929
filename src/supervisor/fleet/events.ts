// What events do to the state of the worker fleet. `reduce` is pure: it returns the state after one event. It neither forks
// nor kills: plan.ts derives the actions from the state, and fleet.ts performs them. All times are milliseconds of one
// monotonic clock.
import type { Heartbeat, WorkerMessage } from '../../core/messages.ts'
import { isStable, recordFailure } from './failures.ts'
import { type ExitCause, type FleetState, type FleetWorker, updateWorker, watchOf } from './fleet-state.ts'
import type { FleetSettings } from './plan.ts'
import { addWorker } from './totals.ts'
import { afterHeartbeat, startWatch } from './watch.ts'

export type FleetEvent =
  | {
      readonly type: 'forked'
      readonly id: number
      readonly pid: number | undefined
      readonly startedMs: number
    }
  | { readonly type: 'retired'; readonly id: number }
  | { readonly type: 'killed'; readonly id: number; readonly reason: string }
  /** Without `message`, the worker is known to be unable to send one. */
  | { readonly type: 'message'; readonly id: number; readonly message?: WorkerMessage }
  | { readonly type: 'exited'; readonly id: number; readonly cause: ExitCause }
  | { readonly type: 'reload'; readonly watchMs: number }
  | { readonly type: 'stop'; readonly delayMs: number }
  /** A second signal ends the drain delay of a stop. */
  | { readonly type: 'skipWait' }

function exited(fleet: FleetState, id: number, cause: ExitCause, nowMs: number): FleetState {
  const worker = fleet.workers.find(one => one.id === id)
  if (worker === undefined) return fleet
  const rest = {
    ...fleet,
    workers: fleet.workers.filter(one => one !== worker),
    exitedTotals: addWorker(fleet.exitedTotals, worker.heartbeat),
  }
  if (worker.state === 'retiring' || fleet.stop !== undefined) return rest
  const next = recordFailure({ ...rest, lostWorkers: fleet.lostWorkers + 1 }, worker, cause, nowMs)
  if (fleet.reload.state !== 'running' || worker.toBeReplaced) return next
  // After the watch, a SIGKILL from outside is not taken as a failure of the code.
  if (cause.killedExternally && worker.state === 'ready' && watchOf(fleet)?.id !== id) return next
  // The new code fails: the reload ends, the old workers that are left stay, and the old code gets no boot failure for it.
  return {
    ...next,
    bootFailures: fleet.bootFailures,
    reload: { state: 'failed', reason: cause.reason },
    workers: next.workers.map(one => ({ ...one, toBeReplaced: false })),
  }
}

function listening(fleet: FleetState, id: number, nowMs: number): FleetState {
  const { reload } = fleet
  // A worker that was already booting when the reload began runs the old code.
  const isNew = fleet.workers.some(one => one.id === id && !one.toBeReplaced)
  return {
    ...updateWorker(fleet, id, () => ({ state: 'ready', sinceMs: nowMs })),
    bootFailures: 0,
    reload:
      reload.state === 'running' && reload.watchMs !== undefined && isNew
        ? { state: 'running', watch: startWatch(fleet, id, nowMs + reload.watchMs) }
        : reload,
  }
}

/** If the watch fails, the new worker retires, because it alone is to be replaced, and the old ones stay. */
function judged(fleet: FleetState, id: number, { beatMs }: FleetSettings, nowMs: number): FleetState {
  const watch = watchOf(fleet)
  if (watch === undefined) return fleet
  const reload = afterHeartbeat(fleet, watch, id, beatMs, nowMs)
  if (reload.state !== 'failed') return { ...fleet, reload }
  return {
    ...fleet,
    reload,
    workers: fleet.workers.map(one => ({ ...one, toBeReplaced: one.id === watch.id })),
  }
}

function heartbeatReceived(
  fleet: FleetState,
  id: number,
  heartbeat: Heartbeat,
  settings: FleetSettings,
  nowMs: number,
): FleetState {
  const isReloading = fleet.reload.state === 'running'
  const next = updateWorker(fleet, id, worker => {
    // Without a database no worker can boot, so its boot timeout is suspended. During a reload it is not: the reload
    // fails instead, and the old workers stay.
    const suspendTimeout =
      heartbeat.databaseDownMs !== undefined && worker.state === 'booting' && !isReloading
    // A new worker is exempt, so a limit below normal use replaces each worker only when it has become stable. A reload of
    // new code that needs more memory would replace its own workers without end.
    const hasGrown = heartbeat.rssBytes > settings.memoryBytes && isStable(worker, nowMs) && !isReloading
    return {
      heartbeat,
      sinceMs: suspendTimeout ? nowMs : worker.sinceMs,
      toBeReplaced: worker.toBeReplaced || hasGrown,
    }
  })
  return judged(next, id, settings, nowMs)
}

function received(
  fleet: FleetState,
  id: number,
  message: WorkerMessage | undefined,
  settings: FleetSettings,
  nowMs: number,
): FleetState {
  const heard = updateWorker(fleet, id, () => ({ lastHeardMs: nowMs }))
  switch (message?.type) {
    case 'socket-request':
      return updateWorker(heard, id, () => ({ hasSocket: true }))
    case 'listening':
      return listening(heard, id, nowMs)
    case 'fatal':
      return updateWorker(heard, id, () => ({
        exitCause: { reason: message.reason, exitCode: message.exitCode },
      }))
    case 'heartbeat':
      return heartbeatReceived(heard, id, message, settings, nowMs)
    default:
      return heard
  }
}

function apply(fleet: FleetState, event: FleetEvent, settings: FleetSettings, nowMs: number): FleetState {
  switch (event.type) {
    case 'forked': {
      const worker: FleetWorker = {
        id: event.id,
        pid: event.pid,
        startedMs: event.startedMs,
        state: 'booting',
        hasSocket: false,
        sinceMs: nowMs,
        lastHeardMs: undefined,
        toBeReplaced: false,
        killed: false,
        heartbeat: undefined,
        exitCause: undefined,
      }
      return { ...fleet, workers: [...fleet.workers, worker] }
    }
    case 'message':
      return received(fleet, event.id, event.message, settings, nowMs)
    case 'retired':
      return updateWorker(fleet, event.id, () => ({ state: 'retiring', sinceMs: nowMs }))
    case 'killed':
      return updateWorker(fleet, event.id, ({ exitCause = { reason: event.reason } }) => ({
        killed: true,
        exitCause,
      }))
    case 'exited':
      return exited(fleet, event.id, event.cause, nowMs)
    case 'reload':
      return {
        ...fleet,
        // The failures of the old code do not delay the new code.
        failures: 0,
        forkAfterMs: nowMs,
        reload: { state: 'running', ...(event.watchMs > 0 && { watchMs: event.watchMs }) },
        workers: fleet.workers.map(worker => ({ ...worker, toBeReplaced: true })),
      }
    case 'stop':
      return { ...fleet, stop: { retireAtMs: nowMs + event.delayMs, killNow: false } }
    case 'skipWait':
      return fleet.stop === undefined
        ? fleet
        : { ...fleet, stop: { retireAtMs: nowMs, killNow: nowMs >= fleet.stop.retireAtMs } }
  }
}

/** Returns the state after an event. */
export function reduce(
  fleet: FleetState,
  event: FleetEvent,
  settings: FleetSettings,
  nowMs: number,
): FleetState {
  const next = apply(fleet, event, settings, nowMs)
  if (next.reload.state !== 'running') return next
  if (next.stop !== undefined)
    return { ...next, reload: { state: 'failed', reason: 'the service is stopping' } }
  const ready = next.workers.filter(({ state }) => state === 'ready').length
  const hasOld = next.workers.some(({ toBeReplaced }) => toBeReplaced)
  return ready >= settings.workers && !hasOld ? { ...next, reload: { state: 'done' } } : next
}
