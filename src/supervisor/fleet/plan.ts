// Decides what to do next about the workers: compares the state of the fleet with its settings and returns actions.
// `plan` is pure: it knows no processes and keeps no state. The order is fixed: kill workers past a
// deadline, exit if none can start, retire a surplus old worker, fork a missing worker or a replacement.
import { exitCodes } from '../../core/exit-codes.ts'
import { type FleetState, type FleetWorker, watchOf } from './fleet-state.ts'

export interface FleetSettings {
  /** Number of workers that should be ready. */
  readonly workers: number
  /** Timeout from the fork until the worker listens, in ms. Time spent waiting for the database counts only in a reload. */
  readonly bootMs: number
  /** The interval of the heartbeats, in ms. */
  readonly beatMs: number
  /** A worker that sends no message for this long counts as hung, in ms. */
  readonly silentMs: number
  /** Timeout from the start of retirement until the exit, in ms. */
  readonly retireMs: number
  /** Number of consecutive boot failures, with no worker ready, that ends the supervisor. */
  readonly bootFailures: number
  /** A worker whose resident memory exceeds it is replaced as in a reload. */
  readonly memoryBytes: number
}

export type Action =
  | { readonly type: 'fork' }
  | { readonly type: 'retire'; readonly id: number }
  | {
      readonly type: 'kill'
      readonly id: number
      readonly reason: string
      /** Whether a stop ends a worker that has no requests, or an operator does not wait for them. */
      readonly isPlanned?: true
    }
  | { readonly type: 'exit'; readonly exitCode: number; readonly reason: string }

/** Returns why a worker is to be killed; undefined if it has missed no deadline. */
function faultOf(
  { state, sinceMs, lastHeardMs }: FleetWorker,
  settings: FleetSettings,
  nowMs: number,
): string | undefined {
  if (nowMs - (lastHeardMs ?? nowMs) >= settings.silentMs)
    return `worker sent no message for ${settings.silentMs} ms`
  if (state === 'booting' && nowMs - sinceMs >= settings.bootMs)
    return `worker did not listen within ${settings.bootMs} ms`
  if (state === 'retiring' && nowMs - sinceMs >= settings.retireMs)
    return `worker did not exit within ${settings.retireMs} ms`
  return undefined
}

/** The plan while the service stops: ready workers retire when the drain delay is over. */
function planStop(
  workers: readonly FleetWorker[],
  stop: NonNullable<FleetState['stop']>,
  nowMs: number,
): Action[] {
  if (workers.length === 0)
    return [{ type: 'exit', exitCode: exitCodes.stopped, reason: 'all workers have exited' }]
  return workers
    .filter(worker => !worker.killed)
    .flatMap(({ id, state, hasSocket }): Action[] => {
      // A booting worker without a socket has no requests to finish. One that has asked for a socket is about to listen.
      if (stop.killNow || (state === 'booting' && !hasSocket))
        return [{ type: 'kill', id, reason: 'the service is stopping', isPlanned: true }]
      return state === 'ready' && nowMs >= stop.retireAtMs ? [{ type: 'retire', id }] : []
    })
}

/** The plan while the service runs: `settings.workers` ready workers; old ones are replaced one at a time, new one first. */
function planService(fleet: FleetState, settings: FleetSettings, nowMs: number): Action[] {
  const live = fleet.workers.filter(({ state, killed }) => state !== 'retiring' && !killed)
  const ready = live.filter(({ state }) => state === 'ready')
  if (ready.length === 0 && fleet.bootFailures >= settings.bootFailures) {
    const { exitCode = exitCodes.noWorkers, reason } = fleet.lastFailure ?? {}
    return [{ type: 'exit', exitCode, reason: `no worker could start: ${reason}` }]
  }
  const old = ready.find(worker => worker.toBeReplaced)
  const isWatching = watchOf(fleet) !== undefined
  if (old !== undefined && ready.length > settings.workers && !isWatching)
    return [{ type: 'retire', id: old.id }]

  // A replacement starts only while no other worker boots, retires or is watched.
  const canReplace = old !== undefined && fleet.workers.length === ready.length && !isWatching
  const isMissing = live.length < settings.workers || canReplace
  // One at a time: if there is no process for it, the next one waits for the backoff.
  return isMissing && nowMs >= fleet.forkAfterMs ? [{ type: 'fork' }] : []
}

/** Returns the next actions. The plan runs again when these are performed and recorded, after each event, and at short intervals. */
export function plan(fleet: FleetState, settings: FleetSettings, nowMs: number): Action[] {
  const overdue = fleet.workers
    .filter(worker => !worker.killed)
    .flatMap((worker): Action[] => {
      const fault = faultOf(worker, settings, nowMs)
      if (fault === undefined) return []
      const hasDatabase = worker.heartbeat?.databaseDownMs === undefined
      return [{ type: 'kill', id: worker.id, reason: hasDatabase ? fault : `${fault}, and had no database` }]
    })
  if (overdue.length > 0) return overdue
  return fleet.stop === undefined
    ? planService(fleet, settings, nowMs)
    : planStop(fleet.workers, fleet.stop, nowMs)
}
