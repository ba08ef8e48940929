// The handle of a worker process: the process, what it has reported, and the cause of its exit.
import cluster, { type Worker } from 'node:cluster'
import { reasonOf } from '../../core/error-reason.ts'
import type { Heartbeat, WorkerMessage } from '../../core/messages.ts'
import type { ExitCause } from './fleet-state.ts'

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

/** Returns the cause of a worker's exit. @param code and `signal` are the arguments of the cluster's `exit` event */
export function exitCauseOf({ fatal, killReason }: Handle, code: number, signal: string | null): ExitCause {
  if (fatal !== undefined) return { reason: fatal.reason, exitCode: fatal.exitCode }
  if (killReason !== undefined) return { reason: killReason }
  const reason = signal === null ? `worker exited with code ${code}` : `worker terminated by ${signal}`
  return { reason, killedExternally: signal === 'SIGKILL' }
}
