// The maintenance of the data ports: which are in it since when and by whom, and what that makes of their state. Pure.
import type { Config } from '../config.ts'
import type { PortReport } from '../messages.ts'

export type DrainMode = Config['drain']['mode']
export type PortState = 'serving' | 'draining' | 'drained'

/** What was asked of a port, and when (ISO 8601) by whom. `mode` is how its checks tell: null while it serves. */
export interface Intent {
  readonly mode: DrainMode | null
  readonly since: string
  readonly by: string
}

/** By label. */
export type Intents = Readonly<Record<string, Intent>>

export function allServing(labels: readonly string[], by: string, now: Date): Intents {
  return Object.fromEntries(labels.map(label => [label, { mode: null, since: now.toISOString(), by }]))
}

/** Into maintenance. Repeated, it only changes the mode: the time that was granted to requests goes on. */
export function drain(intents: Intents, label: string, mode: DrainMode, by: string, now: Date): Intents {
  const before = intents[label]
  const since = before === undefined || before.mode === null ? now.toISOString() : before.since
  return before?.mode === mode ? intents : { ...intents, [label]: { mode, since, by } }
}

/** Back into service. */
export function resume(intents: Intents, label: string, by: string, now: Date): Intents {
  if (intents[label]?.mode === null) return intents
  return { ...intents, [label]: { mode: null, since: now.toISOString(), by } }
}

/** Those that are in maintenance: what outlives a restart. */
export function inMaintenance(intents: Intents): Intents {
  return Object.fromEntries(Object.entries(intents).filter(([, { mode }]) => mode !== null))
}

/**
 * @param reports of each worker that has the port; a port is drained when all of them know of the maintenance and
 * none has a connection left
 */
export function stateOf(intent: Intent, reports: readonly PortReport[]): PortState {
  if (intent.mode === null) return 'serving'
  const quiet = reports.every(({ state, connections }) => state !== 'serving' && connections === 0)
  return quiet ? 'drained' : 'draining'
}

/** How much of `delayMs`, granted to every port from the beginning of its maintenance, is still to come. */
export function delayLeftMs(intents: Intents, delayMs: number, now: Date): number {
  const left = Object.values(intents).map(({ since }) => Date.parse(since) + delayMs - now.getTime())
  return Math.min(delayMs, Math.max(0, ...left))
}
