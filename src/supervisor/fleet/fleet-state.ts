// The state of the worker fleet: which workers exist and what they have reported, how often they failed, and whether a reload or
// a stop is running. Times are milliseconds of one monotonic clock, unless their comment names another one.
import type { Heartbeat } from '../../core/messages.ts'
import type { FiguresByRoute } from './figures.ts'
import { addWorker, type FleetTotals, noTotals } from './totals.ts'

export interface FleetWorker {
  readonly id: number
  /** Undefined if the process could not be started. */
  readonly pid: number | undefined
  /** `Date.now()` at the fork. */
  readonly startedMs: number
  readonly state: 'booting' | 'ready' | 'retiring'
  /** Whether it has asked for the socket of a data port: it can accept connections before it says that it listens. */
  readonly hasSocket: boolean
  /** When the worker entered its state. While it boots and waits for the database: the time of its last message. */
  readonly sinceMs: number
  /** Time of the last message; undefined before the first one. */
  readonly lastHeardMs: number | undefined
  /** It runs old code, or it uses too much memory. */
  readonly toBeReplaced: boolean
  /** SIGKILL has been sent. */
  readonly killed: boolean
  /** The last heartbeat; undefined before the first one. */
  readonly heartbeat: Heartbeat | undefined
  /** Why the worker will exit: the fatal error that it has reported, or else the reason of the SIGKILL. */
  readonly exitCause: ExitCause | undefined
}

/** Why a worker exited. */
export interface ExitCause {
  readonly reason: string
  /** SIGKILL that the supervisor did not send. It is no evidence against code that is known to boot. */
  readonly killedExternally?: boolean
  /** The exit code for the supervisor if no worker becomes ready. Set only for causes that a retry cannot fix. */
  readonly exitCode?: number
}

/** The first new worker of a reload and the time of its watch (watch.ts), in which no old worker retires. */
export interface Watch {
  readonly id: number
  readonly untilMs: number
  /** The last heartbeats before the watch, by worker id. */
  readonly before: ReadonlyMap<number, Heartbeat | undefined>
  /** The first figures that show a fault of the new worker, and the workers that have sent a heartbeat since. */
  readonly suspicion?: { readonly fresh: FiguresByRoute; readonly heard: readonly number[] } | undefined
}

export type Reload =
  | { readonly state: 'idle' | 'done' }
  /** With `watchMs`, the first new worker that becomes ready is watched for so long. */
  | { readonly state: 'running'; readonly watchMs?: number; readonly watch?: Watch }
  | { readonly state: 'failed'; readonly reason: string }

export interface FleetState {
  readonly workers: readonly FleetWorker[]
  /** The traffic of the workers that have exited. */
  readonly exitedTotals: FleetTotals
  /** The number of workers that have exited without being retired, or could not be created. */
  readonly lostWorkers: number
  /** Consecutive failures. Workers that were forked together count once. */
  readonly failures: number
  /** Consecutive failures before the worker was ready; Infinity if a retry cannot help. */
  readonly bootFailures: number
  readonly lastFailure: (ExitCause & { readonly atMs: number }) | undefined
  /** Earliest time of the next fork. */
  readonly forkAfterMs: number
  readonly reload: Reload
  /** Ready workers retire at `retireAtMs`. With `killNow` all workers are killed at once. */
  readonly stop: { readonly retireAtMs: number; readonly killNow: boolean } | undefined
}

export const emptyFleet: FleetState = {
  workers: [],
  exitedTotals: noTotals,
  lostWorkers: 0,
  failures: 0,
  bootFailures: 0,
  lastFailure: undefined,
  forkAfterMs: 0,
  reload: { state: 'idle' },
  stop: undefined,
}

export const watchOf = ({ reload }: FleetState): Watch | undefined =>
  reload.state === 'running' ? reload.watch : undefined

/** Returns the traffic of all workers, including those that have exited. */
export const totalsOf = ({ workers, exitedTotals }: FleetState): FleetTotals =>
  workers.reduce((totals, { heartbeat }) => addWorker(totals, heartbeat), exitedTotals)

export function updateWorker(
  fleet: FleetState,
  id: number,
  update: (worker: FleetWorker) => Partial<FleetWorker>,
): FleetState {
  return {
    ...fleet,
    workers: fleet.workers.map(worker => (worker.id === id ? { ...worker, ...update(worker) } : worker)),
  }
}
