// The state file: a small JSON file that keeps the maintenance of the ports across restarts. Unknown fields are ignored, so
// that a downgrade keeps the maintenance.
import { readFileSync } from 'node:fs'
import * as z from 'zod'
import { drainModes } from '../config/schema.ts'
import { hasCode } from '../core/error-reason.ts'
import type { Log } from '../core/log.ts'
import { writeAtomically } from '../core/write-file.ts'
import type { PortMaintenance } from './port-states.ts'

const schema = z.object({
  maintenance: z.record(
    z.string(),
    z.object({ mode: z.enum(drainModes), since: z.iso.datetime(), by: z.string() }),
  ),
})

/** The ports in maintenance, by label. */
type Stored = Readonly<z.output<typeof schema>['maintenance']>

type State =
  | { readonly is: 'kept'; readonly maintenance: Stored }
  | { readonly is: 'missing' }
  | { readonly is: 'damaged'; readonly reason: string }

/** Reads the file. Every error but that of a missing file counts as damage. */
export function readState(file: string): State {
  try {
    return { is: 'kept', ...schema.parse(JSON.parse(readFileSync(file, 'utf8'))) }
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return { is: 'missing' }
    return { is: 'damaged', reason: String(error) }
  }
}

/** Returns the ports in maintenance, and none if the file is missing or damaged. A damaged file is logged as an error. */
export function readMaintenance(file: string, log: Log): Stored {
  const state = readState(file)
  if (state.is === 'kept') return state.maintenance
  if (state.is === 'missing') log.info({ file }, 'no state file: no port is in maintenance')
  else log.error({ file, reason: state.reason }, 'state file DAMAGED: every port is in service')
  return {}
}

/** @param ports all ports by label @throws Error if the file cannot be written */
export function writeMaintenance(
  file: string,
  ports: ReadonlyMap<string, Pick<PortMaintenance, keyof Stored[string]>>,
): void {
  const maintenance: Stored = Object.fromEntries(
    [...ports].flatMap(([label, { mode, since, by }]) =>
      mode === null ? [] : [[label, { mode, since, by }] as const],
    ),
  )
  writeAtomically(file, `${JSON.stringify({ maintenance }, undefined, 2)}\n`)
}
