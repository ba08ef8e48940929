// The location and the version of the project.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

/** The project's root folder. Relative paths in the settings are relative to it, not to the working directory. */
export const root = fileURLToPath(new URL('../..', import.meta.url))

/** The version of the code that this process runs. */
export const { version } = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')))
