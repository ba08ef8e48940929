// Where the project is.
import { fileURLToPath } from 'node:url'

/** The project's root folder: relative paths in the settings start here, whatever the working directory. */
export const root = fileURLToPath(new URL('../..', import.meta.url))
