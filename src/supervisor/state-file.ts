// The maintenance that outlives the supervisor, in a small JSON file.
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import type { Log } from '../core/log.ts'
import { writeAtomically } from '../core/write-file.ts'
import type { KeptIntents } from './port-states.ts'

const schema = z.strictObject({
  maintenance: z.record(
    z.string(),
    z.strictObject({ mode: z.enum(['404', 'refuse']), since: z.iso.datetime(), by: z.string() }),
  ),
})

/** What the file says; `reason` where it is there, but damaged. */
export type State =
  | { readonly is: 'kept'; readonly maintenance: KeptIntents }
  | { readonly is: 'missing' }
  | { readonly is: 'damaged'; readonly reason: string }

export function readState(file: string): State {
  try {
    return { is: 'kept', ...schema.parse(JSON.parse(readFileSync(file, 'utf8'))) }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return { is: 'missing' }
    return { is: 'damaged', reason: String(error) }
  }
}

/** @returns the ports in maintenance; none where the file is missing, or damaged, which is logged loudly */
export function readMaintenance(file: string, log: Log): KeptIntents {
  const state = readState(file)
  if (state.is === 'kept') return state.maintenance
  if (state.is === 'missing') log.info({ file }, 'there is no state file: no port is in maintenance')
  else log.error({ file, reason: state.reason }, 'THE STATE FILE IS DAMAGED: every port counts as serving')
  return {}
}

/** @throws Error where the disk does not take it */
export function writeMaintenance(file: string, maintenance: KeptIntents): void {
  writeAtomically(file, `${JSON.stringify({ maintenance }, undefined, 2)}\n`)
}
