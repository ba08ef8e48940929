// What to do about the fleet, and when to look again: compares what is wanted with what there is. Pure.
// In this order: kill who missed a deadline, replace who is stale, retire who is replaced, fork who is missing.
import { exitCodes } from '../../core/exit-codes.ts'
import type { Fleet, FleetWorker } from './fleet.ts'

export interface Limits {
  /** How many workers should be ready. */
  readonly workers: number
  /** From the fork until it listens; a wait for the database does not count. */
  readonly bootMs: number
  /** Who says nothing for so long hangs. */
  readonly silentMs: number
  /** From being retired until its end. */
  readonly retireMs: number
  /** So many in a row, with no worker ready, end the supervisor. */
  readonly bootFailures: number
}

export type Step =
  | { readonly do: 'fork' }
  | { readonly do: 'retire'; readonly id: number }
  | { readonly do: 'kill'; readonly id: number; readonly reason: string }
  | { readonly do: 'end'; readonly exitCode: number; readonly reason: string }

export interface Plan {
  readonly steps: readonly Step[]
  /** When the next deadline is; Infinity if only an event can change anything. */
  readonly wakeAtMs: number
}

interface Deadline {
  readonly atMs: number
  readonly reason: string
}

/** When a worker is killed, unless it does what it should before. */
function deadlineOf({ state, sinceMs, lastHeardMs }: FleetWorker, limits: Limits): Deadline {
  const silent: Deadline = {
    atMs: lastHeardMs === undefined ? Infinity : lastHeardMs + limits.silentMs,
    reason: `it said nothing for ${limits.silentMs} ms`,
  }
  if (state === 'ready') return silent
  const late: Deadline =
    state === 'booting'
      ? { atMs: sinceMs + limits.bootMs, reason: `it did not listen within ${limits.bootMs} ms` }
      : { atMs: sinceMs + limits.retireMs, reason: 'it did not end in time' }
  return late.atMs < silent.atMs ? late : silent
}

function end(exitCode: number, reason: string): Plan {
  return { steps: [{ do: 'end', exitCode, reason }], wakeAtMs: Infinity }
}

/** Where the service stops: whoever is ready retires when the delay is over. */
function planStop(workers: readonly FleetWorker[], stop: NonNullable<Fleet['stop']>, nowMs: number): Plan {
  if (workers.length === 0) return end(exitCodes.stopped, 'all workers have ended')
  const steps = workers
    .filter(worker => !worker.killed)
    .flatMap(({ id, state }): Step[] => {
      // Who is still booting has nothing to finish.
      if (stop.cut || state === 'booting') return [{ do: 'kill', id, reason: 'the service stops' }]
      return state === 'ready' && nowMs >= stop.closeAtMs ? [{ do: 'retire', id }] : []
    })
  return { steps, wakeAtMs: nowMs < stop.closeAtMs ? stop.closeAtMs : Infinity }
}

/** Where the service runs: so many workers as are wanted, the stale ones replaced one at a time, new one first. */
function planService(fleet: Fleet, limits: Limits, nowMs: number): Plan {
  const live = fleet.workers.filter(({ state, killed }) => state !== 'retiring' && !killed)
  const ready = live.filter(({ state }) => state === 'ready')
  if (ready.length === 0 && fleet.bootFailures >= limits.bootFailures)
    return end(
      fleet.lastDeath?.exitCode ?? exitCodes.noWorkers,
      `no worker comes up: ${fleet.lastDeath?.reason}`,
    )
  const stale = ready.find(worker => worker.stale)
  const replaced = stale ?? ready[0]
  if (replaced !== undefined && ready.length > limits.workers)
    return { steps: [{ do: 'retire', id: replaced.id }], wakeAtMs: Infinity }

  const missing = limits.workers - live.length
  // One at a time: not while another one comes or goes.
  const settled = fleet.workers.length === ready.length
  const forks = missing > 0 ? missing : stale !== undefined && settled ? 1 : 0
  if (forks > 0 && nowMs < fleet.forkAfterMs) return { steps: [], wakeAtMs: fleet.forkAfterMs }
  return { steps: Array.from({ length: forks }, () => ({ do: 'fork' })), wakeAtMs: Infinity }
}

/** Steps that, once done and recorded, make another plan possible; without steps there is nothing to do until then. */
export function plan(fleet: Fleet, limits: Limits, nowMs: number): Plan {
  const deadlines = fleet.workers
    .filter(worker => !worker.killed)
    .map(worker => ({ id: worker.id, ...deadlineOf(worker, limits) }))
  const overdue = deadlines.filter(({ atMs }) => atMs <= nowMs)
  if (overdue.length > 0)
    return { steps: overdue.map(({ id, reason }) => ({ do: 'kill', id, reason })), wakeAtMs: nowMs }

  const { steps, wakeAtMs } =
    fleet.stop === undefined ? planService(fleet, limits, nowMs) : planStop(fleet.workers, fleet.stop, nowMs)
  return { steps, wakeAtMs: Math.min(wakeAtMs, ...deadlines.map(({ atMs }) => atMs)) }
}
