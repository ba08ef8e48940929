// A worker as its supervisor knows it: the process, what it said last, and why it ended.
import type { Worker } from 'node:cluster'
import type { DesiredState, Heartbeat, WorkerMessage } from '../../core/messages.ts'
import type { Death, FleetWorker } from './fleet.ts'

/** A worker as it is known, for the status. */
export interface WorkerView extends FleetWorker {
  readonly pid: number | undefined
  /** `Date.now()` at its fork. */
  readonly startedMs: number
  /** The last one. */
  readonly heartbeat: Heartbeat | undefined
}

export interface Handle {
  readonly worker: Worker
  readonly startedMs: number
  heartbeat?: Heartbeat
  /** What it said why it must end. */
  fatal?: Extract<WorkerMessage, { type: 'fatal' }>
  killReason?: string
}

/** @param code and `signal` are what the process ended with */
export function deathOf({ fatal, killReason }: Handle, code: number, signal: string | null): Death {
  if (fatal !== undefined) return { reason: fatal.reason, exitCode: fatal.exitCode, fromOutside: false }
  if (killReason !== undefined) return { reason: killReason, fromOutside: false }
  return { reason: `it ended with ${signal ?? `exit code ${code}`}`, fromOutside: signal === 'SIGKILL' }
}

/** What is wanted of a worker that retires. */
export function closing(desired: DesiredState): DesiredState {
  const ports = Object.entries(desired.ports).map(
    ([label, { port }]) => [label, { port, state: 'closing' }] as const,
  )
  return { ...desired, ports: Object.fromEntries(ports) }
}
