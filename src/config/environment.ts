// The environment of child processes.

/** Returns the environment of this process with `overrides`; undefined removes a variable. */
export const environmentWith = (
  overrides: Readonly<Record<string, string | undefined>>,
): Record<string, string | undefined> => ({ ...process.env, ...overrides })

/** Returns the folders in which programs are looked for, as in PATH. */
export const programFolders = (): string => process.env.PATH ?? ''
