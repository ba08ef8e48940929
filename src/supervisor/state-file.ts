// The maintenance that outlives the supervisor, in a small JSON file.
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import type { Log } from '../log.ts'
import type { Intents } from './ports.ts'
import { writeAtomically } from './write-atomically.ts'

const schema = z.strictObject({
  maintenance: z.record(
    z.string(),
    z.strictObject({ mode: z.enum(['404', 'refuse']), since: z.iso.datetime(), by: z.string() }),
  ),
})

/** @returns the ports in maintenance; none where the file is missing, or damaged, which is logged loudly */
export function readMaintenance(file: string, log: Log): Intents {
  try {
    return schema.parse(JSON.parse(readFileSync(file, 'utf8'))).maintenance
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT')
      log.info({ file }, 'there is no state file: no port is in maintenance')
    else log.error({ file, reason: String(error) }, 'THE STATE FILE IS DAMAGED: every port counts as serving')
    return {}
  }
}

/** @throws Error where the disk does not take it */
export function writeMaintenance(file: string, maintenance: Intents): void {
  writeAtomically(file, `${JSON.stringify({ maintenance }, undefined, 2)}\n`)
}
