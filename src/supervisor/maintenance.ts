// Keeps the maintenance of the ports: in memory for those who ask, and on disk before anyone is told that it is so.
import type { Config } from '../config/config.ts'
import type { Log } from '../core/log.ts'
import {
  afterRestart,
  allServing,
  type DrainMode,
  delayLeftMs,
  drain,
  type Intent,
  type Intents,
  inMaintenance,
  resume,
} from './port-states.ts'
import { readMaintenance, writeMaintenance } from './state-file.ts'

export type Maintenance = ReturnType<typeof createMaintenance>

/** @param changed is called after each change, which it makes known to workers and control ports */
export function createMaintenance(
  config: Pick<Config, 'ports' | 'stateFile' | 'drain'>,
  log: Log,
  changed: () => void,
) {
  const labels = config.ports.map(port => port.label)
  const kept = Object.entries(readMaintenance(config.stateFile, log)).filter(([label]) =>
    labels.includes(label),
  )
  const started = new Date()
  let intents: Intents = {
    ...allServing(labels, 'start', started),
    ...afterRestart(Object.fromEntries(kept), started),
  }

  /** @param label one of `labels` */
  function of(label: string): Intent {
    const intent = intents[label]
    if (intent === undefined) throw new Error(`no port ${label}`)
    return intent
  }

  function keep(next: Intents): void {
    if (next === intents) return
    writeMaintenance(config.stateFile, inMaintenance(next))
    intents = next
    changed()
  }

  return {
    labels,
    of,
    /** How much is left of the time for the checkers of this port to notice its mode. */
    delayLeftMs: (label: string) => delayLeftMs([of(label)], config.drain.delayMs, new Date()),
    /** @throws Error where it cannot be written down; then nothing has changed */
    drain: (label: string, mode: DrainMode, by: string) => keep(drain(intents, label, mode, by, new Date())),
    /** @throws Error where it cannot be written down; then nothing has changed */
    resume: (label: string, by: string) => keep(resume(intents, label, by, new Date())),

    /**
     * Every port into maintenance, to stop: that is forgotten afterwards.
     * @returns how much of the drain delay is left, of the port that began last to tell in its mode
     */
    drainAll(by: string): number {
      const now = new Date()
      for (const label of labels)
        if (intents[label]?.mode === null) intents = drain(intents, label, config.drain.mode, by, now)
      changed()
      return delayLeftMs(Object.values(intents), config.drain.delayMs, now)
    },
  }
}
