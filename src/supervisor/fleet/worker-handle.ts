// The supervisor's record of one worker process: the process, its last heartbeat, whether it serves, and the cause of its exit.
import cluster, { type Worker } from 'node:cluster'
import { reasonOf } from '../../core/error-reason.ts'
import type { DataSocket } from '../../core/listen.ts'
import type { DesiredState, Heartbeat, WorkerMessage } from '../../core/messages.ts'
import type { ExitCause, FleetState, FleetWorker } from './fleet-state.ts'

/** A worker that has sent no message for this many heartbeat intervals hangs. */
export const HANGS_AFTER_BEATS = 3

/** A worker as the status reports it. */
export interface WorkerView extends FleetWorker {
  readonly pid: number | undefined
  /** `Date.now()` at the fork. */
  readonly startedMs: number
  /** Heartbeat intervals since the last message, not counting those in which the supervisor itself was suspended. */
  readonly missedHeartbeats: number
  readonly heartbeat: Heartbeat | undefined
}

export interface Handle {
  readonly worker: Worker
  readonly startedMs: number
  heartbeat?: Heartbeat
  /** The fatal error that the worker reported before its exit. */
  fatal?: Extract<WorkerMessage, { type: 'fatal' }>
  /** Why the supervisor killed the worker. */
  killReason?: string
}

/**
 * Forks a worker process.
 * @returns why there is none, if Node.js throws. It throws some failures of a spawn, such as ENOMEM, and emits others
 */
export function forkWorker(): Handle | string {
  try {
    // Each command that runs waits for a message of every worker.
    return { worker: cluster.fork().setMaxListeners(0), startedMs: Date.now() }
  } catch (error) {
    return reasonOf(error)
  }
}

/**
 * Whether a worker serves requests. While the service stops, retiring workers still serve their open connections.
 * A worker that hangs serves none, although it is killed only later.
 */
export function isServing(
  { state, missedHeartbeats }: Pick<WorkerView, 'state' | 'missedHeartbeats'>,
  isStopping: boolean,
): boolean {
  return (state === 'ready' || isStopping) && missedHeartbeats <= HANGS_AFTER_BEATS
}

/** Returns for how long a worker has been without its database, in ms: what it reported, and the time since then. */
export function databaseDownMs({
  heartbeat,
  lastHeardMs = performance.now(),
}: WorkerView): number | undefined {
  const downMs = heartbeat?.databaseDownMs
  return downMs === undefined ? undefined : downMs + performance.now() - lastHeardMs
}

/** Returns the cause of a worker's exit. @param code and `signal` are the arguments of the cluster's `exit` event */
export function exitCauseOf({ fatal, killReason }: Handle, code: number, signal: string | null): ExitCause {
  if (fatal !== undefined) return { reason: fatal.reason, exitCode: fatal.exitCode }
  if (killReason !== undefined) return { reason: killReason }
  const reason = signal === null ? `worker exited with code ${code}` : `worker terminated by ${signal}`
  return { reason, killedExternally: signal === 'SIGKILL' }
}

/**
 * Returns the desired state of one worker. Every port of a retiring worker is closing.
 * @param sockets of the data ports, by label
 * @param maxActive by label
 */
export function desiredOf(
  desired: DesiredState,
  { workers, stop }: Pick<FleetState, 'workers' | 'stop'>,
  id: number,
  sockets: ReadonlyMap<string, DataSocket>,
  maxActive: Readonly<Record<string, number>> = {},
): DesiredState {
  const isRetiring = workers.some(worker => worker.id === id && worker.state === 'retiring')
  const ports = Object.entries(desired.ports).map(([label, port]) => {
    const own = isRetiring
      ? { state: 'closing' as const, emptiesQueue: stop !== undefined && !sockets.get(label)?.isInherited }
      : { maxActive: maxActive[label] }
    return [label, { ...port, ...own }] as const
  })
  return { ...desired, ports: Object.fromEntries(ports) }
}
