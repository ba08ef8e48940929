// The location and the version of the project.
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as z from 'zod'

/** Returns the nearest folder above this module that has a package.json: the build moves modules to other folders. */
const folderAbove = (url: URL): URL =>
  existsSync(new URL('package.json', url)) ? url : folderAbove(new URL('..', url))

const folder = folderAbove(new URL('.', import.meta.url))

/** The project's root folder. Relative paths in the settings are relative to it, not to the working directory. */
export const root = fileURLToPath(folder)

/** The version of the code that this process runs. */
export const { version } = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')))
