// The settings of the project, without config/local.json of a developer.
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { root } from '../../src/config/root.ts'

/** Whether a path is that of no file with the settings of a developer. */
export const isOfProject = (path: string): boolean => path !== join(root, 'config', 'local.json')

/** Has this process and those that it starts from now on use a copy of config/, which is made at `folder`. */
export async function useProjectSettings(folder: string): Promise<void> {
  await cp(join(root, 'config'), folder, { recursive: true, filter: isOfProject })
  process.env.NODE_CONFIG_DIR = folder
}
