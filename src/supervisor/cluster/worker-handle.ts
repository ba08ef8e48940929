// A worker as its supervisor knows it: the process, what it said last, and why it ended.
import type { Worker } from 'node:cluster'
import type { Beat, Fact } from '../../core/messages.ts'
import type { Death, FleetWorker } from './fleet.ts'

/** A worker as it is known, for the status. */
export interface WorkerView extends FleetWorker {
  readonly pid: number | undefined
  /** `Date.now()` at its fork. */
  readonly startedMs: number
  /** The last one. */
  readonly beat: Beat | undefined
}

export interface Handle {
  readonly worker: Worker
  readonly startedMs: number
  beat?: Beat
  /** What it said why it must end. */
  fatal?: Extract<Fact, { type: 'fatal' }>
  killReason?: string
}

/** @param code and `signal` are what the process ended with */
export function deathOf({ fatal, killReason }: Handle, code: number, signal: string | null): Death {
  if (fatal !== undefined) return { reason: fatal.reason, exitCode: fatal.exitCode, fromOutside: false }
  if (killReason !== undefined) return { reason: killReason, fromOutside: false }
  return { reason: `it ended with ${signal ?? `exit code ${code}`}`, fromOutside: signal === 'SIGKILL' }
}
