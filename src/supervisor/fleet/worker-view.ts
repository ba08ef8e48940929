// A worker as the supervisor sees it: its state in the fleet, and for how long it has been silent.
import type { FleetWorker } from './fleet-state.ts'

/** A worker that has sent no message for this many heartbeat intervals hangs. */
const HANGS_AFTER_BEATS = 3

export interface WorkerView extends FleetWorker {
  /** Time since the last message, without that in which the supervisor itself was suspended. */
  readonly silentMs: number
  /** The same in heartbeat intervals. */
  readonly missedHeartbeats: number
}

export function viewOf(worker: FleetWorker, beatMs: number, nowMs: number): WorkerView {
  const silentMs = nowMs - (worker.lastHeardMs ?? -Infinity)
  return { ...worker, silentMs, missedHeartbeats: silentMs / beatMs }
}

export const hangs = ({ missedHeartbeats }: Pick<WorkerView, 'missedHeartbeats'>): boolean =>
  missedHeartbeats > HANGS_AFTER_BEATS
