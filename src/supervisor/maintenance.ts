// Holds the maintenance of the data ports. A change is written to the state file before it takes effect, so a restart
// never reverts what a reply has confirmed; only the drain of a stop is not stored. The transitions are in port-states.ts.
import type { Config } from '../config/config.ts'
import type { Log } from '../core/log.ts'
import type { DesiredStateStore } from './desired-state.ts'
import {
  allServing,
  currentMoment,
  type DrainMode,
  drain,
  fromPersisted,
  type PortMaintenance,
  type PortMaintenances,
  remainingDelayMs,
  resume,
  toPersisted,
} from './port-states.ts'
import { readMaintenance, writeMaintenance } from './state-file.ts'

export type Maintenance = ReturnType<typeof createMaintenance>

/** @param desired receives the state of every port, now and after each change */
export function createMaintenance(
  config: Pick<Config, 'ports' | 'stateFile' | 'drain'>,
  log: Log,
  desired: DesiredStateStore,
) {
  const labels = config.ports.map(port => port.label)
  const persisted = Object.entries(readMaintenance(config.stateFile, log)).filter(([label]) =>
    labels.includes(label),
  )
  const startedAt = currentMoment()
  let ports: PortMaintenances
  use({
    ...allServing(labels, 'start', startedAt),
    ...fromPersisted(Object.fromEntries(persisted), startedAt),
  })

  function use(next: PortMaintenances): void {
    ports = next
    const states = config.ports.map(({ label, port }) => {
      const state = get(label).mode === null ? 'serving' : 'draining'
      return [label, { port, state }] as const
    })
    desired.set({ ports: Object.fromEntries(states) })
  }

  /** @param label one of `labels` */
  function get(label: string): PortMaintenance {
    const port = ports[label]
    if (port === undefined) throw new Error(`unknown port ${label}`)
    return port
  }

  function save(next: PortMaintenances): void {
    if (next === ports) return
    writeMaintenance(config.stateFile, toPersisted(next))
    use(next)
  }

  return {
    labels,
    get,
    /** Returns the start of the port's maintenance, ISO 8601; null while it serves. */
    startOf(label: string): string | null {
      const { mode, since } = get(label)
      return mode === null ? null : since
    },
    /** Returns the rest of the drain delay of this port in ms: its checkers have this long to see the mode. */
    remainingDelayMs: (label: string) =>
      remainingDelayMs([get(label)], config.drain.delayMs, performance.now()),
    /** @throws Error if the state file cannot be written; then nothing has changed */
    drain: (label: string, mode: DrainMode, by: string) =>
      save(drain(ports, label, mode, by, currentMoment())),
    /** @throws Error if the state file cannot be written; then nothing has changed */
    resume: (label: string, by: string) => save(resume(ports, label, by, currentMoment())),

    /**
     * Puts every port into maintenance for a stop. This is not written to the state file.
     * @returns the rest of the drain delay in ms, of the port whose mode changed last
     */
    drainAll(by: string): number {
      const now = currentMoment()
      for (const label of labels)
        if (get(label).mode === null) use(drain(ports, label, config.drain.mode, by, now))
      return remainingDelayMs(Object.values(ports), config.drain.delayMs, now.ms)
    },
  }
}
