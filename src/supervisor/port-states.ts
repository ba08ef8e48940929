// Computes the maintenance of a data port: whether it is in maintenance, since when, in which mode and by whose command. The
// functions are pure: they return new values and keep no state. maintenance.ts holds the current values, and state-file.ts
// stores them.
import type { drainModes } from '../config/schema.ts'
import type { PortReport } from '../core/messages.ts'

export type DrainMode = (typeof drainModes)[number]
export const portStates = ['serving', 'draining', 'drained'] as const
export type PortState = (typeof portStates)[number]

export interface PortMaintenance {
  /** How health checks report the maintenance; null while the port serves. */
  readonly mode: DrainMode | null
  /** Start of the maintenance or of the service, ISO 8601. */
  readonly since: string
  /** The operator or the event that caused it. */
  readonly by: string
  /** When health checks began to report this mode, on the steady clock. The drain delay and the deadline of `wait` run from here. */
  readonly modeSinceMs: number
}

/** A time on both clocks: durations come from the steady one, because the other one can be set. */
export interface Moment {
  readonly date: Date
  /** As `performance.now()`. */
  readonly ms: number
}

export const currentMoment = (): Moment => ({ date: new Date(), ms: performance.now() })

export const serve = (by: string, { date, ms }: Moment): PortMaintenance => ({
  mode: null,
  since: date.toISOString(),
  modeSinceMs: ms,
  by,
})

/** Puts a port into maintenance. If it is in maintenance already, only the mode changes, and `since` is kept. */
export function drain(before: PortMaintenance, mode: DrainMode, by: string, now: Moment): PortMaintenance {
  if (before.mode === mode) return before
  const { since } = before.mode === null ? serve(by, now) : before
  return { mode, since, modeSinceMs: now.ms, by }
}

/** Puts a port back into service. */
export const resume = (before: PortMaintenance, by: string, now: Moment): PortMaintenance =>
  before.mode === null ? before : serve(by, now)

/**
 * Returns the state of a port. It is drained when every worker has applied the maintenance and has had no connection for
 * `quietMs`: a proxy that has not noticed can be between two connections. Without a worker, clients wait for the next one.
 * @param reports one of each worker that has the port
 */
export function stateOf(
  { mode }: PortMaintenance,
  reports: readonly PortReport[],
  quietMs: number,
): PortState {
  if (mode === null) return 'serving'
  const isQuiet = (report: PortReport) =>
    report.state !== 'serving' && report.connections === 0 && report.quietMs >= quietMs
  return reports.length > 0 && reports.every(isQuiet) ? 'drained' : 'draining'
}

/** Whether a checker has noticed the maintenance: at the second check, as a proxy can ignore a single failure. */
export const hasNoticed = ({ noticed }: { readonly noticed: number }): boolean => noticed >= 2

/** Returns the rest of the drain delay in ms. The port whose mode changed last decides. */
export function remainingDelayMs(ports: Iterable<PortMaintenance>, delayMs: number, nowMs: number): number {
  return Math.max(0, ...[...ports].map(({ modeSinceMs }) => delayMs - (nowMs - modeSinceMs)))
}
