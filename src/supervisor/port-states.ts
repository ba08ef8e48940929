// Computes the maintenance of the data ports: which ports are in maintenance, since when, in which mode and by whose
// command. The functions are pure: they return new values and keep no state. maintenance.ts holds the current value, and
// state-file.ts stores it.
import type { drainModes } from '../config/schema.ts'
import type { PortReport } from '../core/messages.ts'

export type DrainMode = (typeof drainModes)[number]
export const portStates = ['serving', 'draining', 'drained'] as const
export type PortState = (typeof portStates)[number]

/** The part that outlives a restart. */
interface PersistedMaintenance {
  /** How health checks report the maintenance; null while the port serves. */
  readonly mode: DrainMode | null
  /** Start of the maintenance or of the service, ISO 8601. */
  readonly since: string
  /** The operator or the event that caused it. */
  readonly by: string
}

export interface PortMaintenance extends PersistedMaintenance {
  /** `since` on the steady clock, or the start of this process if that was later. */
  readonly sinceMs: number
  /** When health checks began to report this mode, on the steady clock. The drain delay runs from here. */
  readonly modeSinceMs: number
}

/** A time on both clocks: durations come from the steady one, because the other one can be set. */
export interface Moment {
  readonly date: Date
  /** As `performance.now()`. */
  readonly ms: number
}

export const currentMoment = (): Moment => ({ date: new Date(), ms: performance.now() })

/** By label. */
export type PortMaintenances = Readonly<Record<string, PortMaintenance>>
export type PersistedMaintenances = Readonly<Record<string, PersistedMaintenance>>

export function allServing(labels: readonly string[], by: string, now: Moment): PortMaintenances {
  const times = { since: now.date.toISOString(), sinceMs: now.ms, modeSinceMs: now.ms }
  return Object.fromEntries(labels.map(label => [label, { mode: null, ...times, by }]))
}

/** Puts a port into maintenance. If it is in maintenance already, only the mode changes, and `since` is kept. */
export function drain(
  ports: PortMaintenances,
  label: string,
  mode: DrainMode,
  by: string,
  now: Moment,
): PortMaintenances {
  const before = ports[label]
  if (before?.mode === mode) return ports
  const start = { since: now.date.toISOString(), sinceMs: now.ms }
  const { since, sinceMs } = before === undefined || before.mode === null ? start : before
  return { ...ports, [label]: { mode, since, sinceMs, modeSinceMs: now.ms, by } }
}

/** Puts a port back into service. */
export function resume(ports: PortMaintenances, label: string, by: string, now: Moment): PortMaintenances {
  if (ports[label]?.mode === null) return ports
  return { ...ports, ...allServing([label], by, now) }
}

/** Returns what the state file stores: the ports in maintenance. */
export function toPersisted(ports: PortMaintenances): PersistedMaintenances {
  const inMaintenance = Object.entries(ports).filter(([, { mode }]) => mode !== null)
  return Object.fromEntries(inMaintenance.map(([label, { mode, since, by }]) => [label, { mode, since, by }]))
}

/** Restores the ports after a restart. The drain delay starts again: which checkers saw the mode is unknown. */
export function fromPersisted(persisted: PersistedMaintenances, { ms }: Moment): PortMaintenances {
  const times = { sinceMs: ms, modeSinceMs: ms }
  return Object.fromEntries(Object.entries(persisted).map(([label, port]) => [label, { ...port, ...times }]))
}

/**
 * Returns the state of a port. It is drained when every worker has applied the maintenance and has had no connection for
 * `quietMs`: a proxy that has not noticed can be between two connections.
 * @param reports one of each worker that has the port
 */
export function stateOf(
  { mode }: PortMaintenance,
  reports: readonly PortReport[],
  quietMs: number,
): PortState {
  if (mode === null) return 'serving'
  const isDrained = reports.every(
    // Workers of an earlier version do not report for how long they have been quiet.
    report =>
      report.state !== 'serving' && report.connections === 0 && (report.quietMs ?? quietMs) >= quietMs,
  )
  return isDrained ? 'drained' : 'draining'
}

/** Returns the requests that still arrive a second at a port, and the addresses that send most of them. */
export function arrivingAt(reports: readonly PortReport[]): { perSecond: number; addresses: string[] } {
  const arriving = reports.flatMap(report => report.arriving ?? [])
  return {
    perSecond: arriving.reduce((sum, { perSecond }) => sum + perSecond, 0),
    addresses: [...new Set(arriving.flatMap(({ addresses }) => addresses))],
  }
}

/** Whether a checker has seen the maintenance: at the second check, as a proxy can ignore a single failure. */
export const hasSeen = ({ noticed }: { readonly noticed: number }): boolean => noticed >= 2

/** Returns the rest of the drain delay in ms. The port whose mode changed last decides. */
export function remainingDelayMs(ports: readonly PortMaintenance[], delayMs: number, nowMs: number): number {
  return Math.max(0, ...ports.map(({ modeSinceMs }) => delayMs - (nowMs - modeSinceMs)))
}
