// A worker as the supervisor sees it: its state in the fleet, its process, and its last heartbeat.
import type { Heartbeat } from '../../core/messages.ts'
import type { FleetWorker } from './fleet-state.ts'

/** A worker that has sent no message for this many heartbeat intervals hangs. */
const HANGS_AFTER_BEATS = 3

export interface WorkerView extends FleetWorker {
  readonly pid: number | undefined
  /** `Date.now()` at the fork. */
  readonly startedMs: number
  /** Time since the last message, without that in which the supervisor itself was suspended. */
  readonly silentMs: number
  /** The same in heartbeat intervals. */
  readonly missedHeartbeats: number
  readonly heartbeat: Heartbeat | undefined
}

export const hangs = ({ missedHeartbeats }: Pick<WorkerView, 'missedHeartbeats'>): boolean =>
  missedHeartbeats > HANGS_AFTER_BEATS
