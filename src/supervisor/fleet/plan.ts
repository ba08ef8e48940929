// Decides what to do next about the workers: compares the state of the fleet with its limits and returns actions.
// `plan` is pure: it knows no processes and keeps no state. The order is fixed: kill workers past a
// deadline, exit if none can start, retire a surplus old worker, fork a missing worker or a replacement.
import { exitCodes } from '../../core/exit-codes.ts'
import { type FleetState, type FleetWorker, watchOf } from './fleet-state.ts'

export interface Limits {
  /** Number of workers that should be ready. */
  readonly workers: number
  /** Timeout from the fork until the worker listens, in ms; time spent waiting for the database does not count. */
  readonly bootMs: number
  /** A worker that sends no message for this long counts as hung, in ms. */
  readonly silentMs: number
  /** Timeout from the start of retirement until the exit, in ms. */
  readonly retireMs: number
  /** Number of consecutive boot failures, with no worker ready, that ends the supervisor. */
  readonly bootFailures: number
}

export type Action =
  | { readonly type: 'fork' }
  | { readonly type: 'retire'; readonly id: number }
  | { readonly type: 'kill'; readonly id: number; readonly reason: string }
  | { readonly type: 'exit'; readonly exitCode: number; readonly reason: string }

interface Plan {
  readonly actions: readonly Action[]
  /** Time of the next deadline; Infinity if only an event can lead to new actions. */
  readonly nextRunAtMs: number
}

interface Deadline {
  readonly atMs: number
  readonly reason: string
}

/** The earliest deadline of a worker, which is killed if it misses it. */
function deadlineOf({ state, sinceMs, lastHeardMs }: FleetWorker, limits: Limits): Deadline {
  const silence: Deadline = {
    atMs: lastHeardMs === undefined ? Infinity : lastHeardMs + limits.silentMs,
    reason: `worker sent no message for ${limits.silentMs} ms`,
  }
  if (state === 'ready') return silence
  const transition: Deadline =
    state === 'booting'
      ? { atMs: sinceMs + limits.bootMs, reason: `worker did not listen within ${limits.bootMs} ms` }
      : { atMs: sinceMs + limits.retireMs, reason: `worker did not exit within ${limits.retireMs} ms` }
  return transition.atMs < silence.atMs ? transition : silence
}

function exit(exitCode: number, reason: string): Plan {
  return { actions: [{ type: 'exit', exitCode, reason }], nextRunAtMs: Infinity }
}

/** The plan while the service stops: ready workers retire when the drain delay is over. */
function planStop(
  workers: readonly FleetWorker[],
  stop: NonNullable<FleetState['stop']>,
  nowMs: number,
): Plan {
  if (workers.length === 0) return exit(exitCodes.stopped, 'all workers have exited')
  const actions = workers
    .filter(worker => !worker.killed)
    .flatMap(({ id, state }): Action[] => {
      // A booting worker has no requests to finish.
      if (stop.killNow || state === 'booting')
        return [{ type: 'kill', id, reason: 'the service is stopping' }]
      return state === 'ready' && nowMs >= stop.retireAtMs ? [{ type: 'retire', id }] : []
    })
  return { actions, nextRunAtMs: nowMs < stop.retireAtMs ? stop.retireAtMs : Infinity }
}

/** The plan while the service runs: `limits.workers` ready workers; old ones are replaced one at a time, new one first. */
function planService(fleet: FleetState, limits: Limits, nowMs: number): Plan {
  const live = fleet.workers.filter(({ state, killed }) => state !== 'retiring' && !killed)
  const ready = live.filter(({ state }) => state === 'ready')
  if (ready.length === 0 && fleet.bootFailures >= limits.bootFailures)
    return exit(
      fleet.lastFailure?.exitCode ?? exitCodes.noWorkers,
      `no worker could start: ${fleet.lastFailure?.reason}`,
    )
  const old = ready.find(worker => worker.toBeReplaced)
  const isWatching = watchOf(fleet) !== undefined
  if (old !== undefined && ready.length > limits.workers && !isWatching)
    return { actions: [{ type: 'retire', id: old.id }], nextRunAtMs: Infinity }

  // A replacement starts only while no other worker boots, retires or is watched.
  const canReplace = old !== undefined && fleet.workers.length === ready.length && !isWatching
  if (live.length >= limits.workers && !canReplace) return { actions: [], nextRunAtMs: Infinity }
  // One at a time: if there is no process for it, the next one waits for the backoff.
  if (nowMs < fleet.forkAfterMs) return { actions: [], nextRunAtMs: fleet.forkAfterMs }
  return { actions: [{ type: 'fork' }], nextRunAtMs: Infinity }
}

/**
 * Returns the next actions. Call it again after these are performed and recorded, until it returns none; then call it at
 * `nextRunAtMs` or after the next event.
 */
export function plan(fleet: FleetState, limits: Limits, nowMs: number): Plan {
  const deadlines = fleet.workers
    .filter(worker => !worker.killed)
    .map(worker => ({ id: worker.id, ...deadlineOf(worker, limits) }))
  const overdue = deadlines.filter(({ atMs }) => atMs <= nowMs)
  if (overdue.length > 0)
    return { actions: overdue.map(({ id, reason }) => ({ type: 'kill', id, reason })), nextRunAtMs: nowMs }

  const { actions, nextRunAtMs } =
    fleet.stop === undefined ? planService(fleet, limits, nowMs) : planStop(fleet.workers, fleet.stop, nowMs)
  return { actions, nextRunAtMs: Math.min(nextRunAtMs, ...deadlines.map(({ atMs }) => atMs)) }
}
