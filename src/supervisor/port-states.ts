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
  /** When health checks began to report this mode, ISO 8601. The drain delay runs from here. */
  readonly modeSince: string
}

/** By label. */
export type PortMaintenances = Readonly<Record<string, PortMaintenance>>
export type PersistedMaintenances = Readonly<Record<string, PersistedMaintenance>>

export function allServing(labels: readonly string[], by: string, now: Date): PortMaintenances {
  const since = now.toISOString()
  return Object.fromEntries(labels.map(label => [label, { mode: null, since, modeSince: since, by }]))
}

/** Puts a port into maintenance. If it is in maintenance already, only the mode changes, and `since` is kept. */
export function drain(
  ports: PortMaintenances,
  label: string,
  mode: DrainMode,
  by: string,
  now: Date,
): PortMaintenances {
  const before = ports[label]
  if (before?.mode === mode) return ports
  const modeSince = now.toISOString()
  const since = before === undefined || before.mode === null ? modeSince : before.since
  return { ...ports, [label]: { mode, since, modeSince, by } }
}

/** Puts a port back into service. */
export function resume(ports: PortMaintenances, label: string, by: string, now: Date): PortMaintenances {
  if (ports[label]?.mode === null) return ports
  return { ...ports, ...allServing([label], by, now) }
}

/** Returns what the state file stores: the ports in maintenance. */
export function toPersisted(ports: PortMaintenances): PersistedMaintenances {
  const inMaintenance = Object.entries(ports).filter(([, { mode }]) => mode !== null)
  return Object.fromEntries(inMaintenance.map(([label, { mode, since, by }]) => [label, { mode, since, by }]))
}

/** Restores the ports after a restart. The drain delay starts again: which checkers saw the mode is unknown. */
export function fromPersisted(persisted: PersistedMaintenances, now: Date): PortMaintenances {
  const modeSince = now.toISOString()
  return Object.fromEntries(Object.entries(persisted).map(([label, port]) => [label, { ...port, modeSince }]))
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
export function remainingDelayMs(ports: readonly PortMaintenance[], delayMs: number, now: Date): number {
  const remaining = ports.map(({ modeSince }) => Date.parse(modeSince) + delayMs - now.getTime())
  // At most `delayMs`, even if the clock was set back.
  return Math.min(delayMs, Math.max(0, ...remaining))
}
