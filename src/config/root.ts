// The location of the project.
import { fileURLToPath } from 'node:url'

/** The project's root folder. Relative paths in the settings are relative to it, not to the working directory. */
export const root = fileURLToPath(new URL('../..', import.meta.url))
