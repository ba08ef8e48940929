// Holds the maintenance of the data ports. A change is written to the state file before it takes effect, so a restart
// never reverts what a reply has confirmed; only the drain of a stop is not stored. The transitions are in port-states.ts;
// workers and control ports are updated by the caller.
import type { Config } from '../config/config.ts'
import type { Log } from '../core/log.ts'
import {
  allServing,
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

/** @param onChange called after each change; it updates the workers and the control ports */
export function createMaintenance(
  config: Pick<Config, 'ports' | 'stateFile' | 'drain'>,
  log: Log,
  onChange: () => void,
) {
  const labels = config.ports.map(port => port.label)
  const persisted = Object.entries(readMaintenance(config.stateFile, log)).filter(([label]) =>
    labels.includes(label),
  )
  const startedAt = new Date()
  let ports: PortMaintenances = {
    ...allServing(labels, 'start', startedAt),
    ...fromPersisted(Object.fromEntries(persisted), startedAt),
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
    ports = next
    onChange()
  }

  return {
    labels,
    get,
    /** Returns the rest of the drain delay of this port in ms: its checkers have this long to see the mode. */
    remainingDelayMs: (label: string) => remainingDelayMs([get(label)], config.drain.delayMs, new Date()),
    /** @throws Error if the state file cannot be written; then nothing has changed */
    drain: (label: string, mode: DrainMode, by: string) => save(drain(ports, label, mode, by, new Date())),
    /** @throws Error if the state file cannot be written; then nothing has changed */
    resume: (label: string, by: string) => save(resume(ports, label, by, new Date())),

    /**
     * Puts every port into maintenance for a stop. This is not written to the state file.
     * @returns the rest of the drain delay in ms, of the port whose mode changed last
     */
    drainAll(by: string): number {
      const now = new Date()
      for (const label of labels)
        if (ports[label]?.mode === null) ports = drain(ports, label, config.drain.mode, by, now)
      onChange()
      return remainingDelayMs(Object.values(ports), config.drain.delayMs, now)
    },
  }
}
