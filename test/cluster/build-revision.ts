// Builds another revision of this repository, with its own packages.
import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { promisify } from 'node:util'
import { root } from '../../src/config/root.ts'
import type { Build } from '../trial/node.ts'

const run = promisify(execFile)

/**
 * @param revision such as a tag or the hash of a commit
 * @param folder a folder that does not exist
 * @throws Error with the output of the command that failed
 */
export async function buildRevision(revision: string, folder: string): Promise<Build> {
  console.log(`building ${revision} in ${folder}`)
  await mkdir(folder)
  const archive = `${folder}.tar`
  await run('git', ['archive', `--output=${archive}`, '--end-of-options', revision], { cwd: root })
  await run('tar', ['-xf', archive, '-C', folder])
  await run('npm', ['ci', '--include=dev', '--no-audit', '--no-fund'], { cwd: folder })
  await run('npm', ['run', 'build'], { cwd: folder })
  return {
    folder,
    migrate: url =>
      run(process.execPath, ['dist/migrate.js'], { cwd: folder, env: { ...process.env, DATABASE_URL: url } }),
  }
}
