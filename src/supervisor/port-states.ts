// The maintenance of the data ports: which are in it since when and by whom, and what that makes of their state. Pure.
import type { Config } from '../config/config.ts'
import type { PortReport } from '../core/messages.ts'

export type DrainMode = Config['drain']['mode']
export type PortState = 'serving' | 'draining' | 'drained'

/** What was asked of a port, and when (ISO 8601) by whom. `mode` is how its checks tell: null while it serves. */
interface KeptIntent {
  readonly mode: DrainMode | null
  readonly since: string
  readonly by: string
}

export interface Intent extends KeptIntent {
  /** When its checks began to tell in this mode: the drain delay is for those who have yet to notice. */
  readonly toldSince: string
}

/** By label. */
export type Intents = Readonly<Record<string, Intent>>
export type KeptIntents = Readonly<Record<string, KeptIntent>>

export function allServing(labels: readonly string[], by: string, now: Date): Intents {
  const since = now.toISOString()
  return Object.fromEntries(labels.map(label => [label, { mode: null, since, toldSince: since, by }]))
}

/** Into maintenance. Repeated, it only changes the mode: the time that was granted to requests goes on. */
export function drain(intents: Intents, label: string, mode: DrainMode, by: string, now: Date): Intents {
  const before = intents[label]
  if (before?.mode === mode) return intents
  const toldSince = now.toISOString()
  const since = before === undefined || before.mode === null ? toldSince : before.since
  return { ...intents, [label]: { mode, since, toldSince, by } }
}

/** Back into service. */
export function resume(intents: Intents, label: string, by: string, now: Date): Intents {
  if (intents[label]?.mode === null) return intents
  return { ...intents, ...allServing([label], by, now) }
}

/** Of those that are in maintenance, what outlives a restart. */
export function inMaintenance(intents: Intents): KeptIntents {
  const away = Object.entries(intents).filter(([, { mode }]) => mode !== null)
  return Object.fromEntries(away.map(([label, { mode, since, by }]) => [label, { mode, since, by }]))
}

/** After a restart: who has noticed nobody knows any more, so the delay begins anew. */
export function afterRestart(kept: KeptIntents, now: Date): Intents {
  const toldSince = now.toISOString()
  return Object.fromEntries(Object.entries(kept).map(([label, intent]) => [label, { ...intent, toldSince }]))
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

/** How much of `delayMs`, granted from when each port began to tell in its mode, is still to come. */
export function delayLeftMs(intents: readonly Intent[], delayMs: number, now: Date): number {
  const left = intents.map(({ toldSince }) => Date.parse(toldSince) + delayMs - now.getTime())
  return Math.min(delayMs, Math.max(0, ...left))
}
