// Holds the maintenance of the data ports. A change is written to the state file before it takes effect, so a restart
// never reverts what a reply has confirmed; only the drain of a stop is not stored. The transitions are in port-states.ts.
import type { Config } from '../config/config.ts'
import type { Log } from '../core/log.ts'
import type { DesiredStateStore } from './desired-state.ts'
import {
  currentMoment,
  type DrainMode,
  drain,
  type PortMaintenance,
  remainingDelayMs,
  resume,
  serve,
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
  const stored = readMaintenance(config.stateFile, log)
  const started = serve('start', currentMoment())
  // After a restart, the drain delay starts again: which checkers saw the mode is unknown.
  let ports = new Map(labels.map(label => [label, { ...started, ...stored[label] }]))
  publish()

  function publish(): void {
    const states = config.ports.map(({ label, port, proxyProtocol = false }) => {
      const state = get(label).mode === null ? 'serving' : 'draining'
      return [label, { port, proxyProtocol, state }] as const
    })
    desired.set({ ports: Object.fromEntries(states) })
  }

  /** @param label one of `labels` */
  function get(label: string): PortMaintenance {
    const port = ports.get(label)
    if (port === undefined) throw new Error(`unknown port ${label}`)
    return port
  }

  function save(label: string, next: PortMaintenance): void {
    if (next === get(label)) return
    const changed = new Map(ports).set(label, next)
    writeMaintenance(config.stateFile, changed)
    ports = changed
    publish()
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
      save(label, drain(get(label), mode, by, currentMoment())),
    /** @throws Error if the state file cannot be written; then nothing has changed */
    resume: (label: string, by: string) => save(label, resume(get(label), by, currentMoment())),

    /**
     * Puts every port into maintenance for a stop. This is not written to the state file.
     * @returns the rest of the drain delay in ms, of the port whose mode changed last
     */
    drainAll(by: string): number {
      const now = currentMoment()
      for (const [label, port] of ports)
        if (port.mode === null) ports.set(label, drain(port, config.drain.mode, by, now))
      publish()
      return remainingDelayMs(ports.values(), config.drain.delayMs, now.ms)
    },
  }
}
