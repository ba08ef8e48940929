// The tools that the operators' kit in config/ is for: each checks its own file.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { ExecutionContext } from 'ava'
import { findProgram, type Program } from '../../src/cli/private-servers/programs.ts'

export const kitPrograms: readonly Program[] = [
  { title: 'nginx', names: ['nginx'], debianPackage: 'nginx-light', brewFormula: 'nginx' },
  { title: 'promtool', names: ['promtool'], debianPackage: 'prometheus', brewFormula: 'prometheus' },
  { title: 'systemd-analyze', names: ['systemd-analyze'], debianPackage: 'systemd', brewFormula: 'systemd' },
]

export const kitFile = (name: string) => fileURLToPath(new URL(`../../config/${name}`, import.meta.url))

/**
 * Runs a tool to its end.
 * @returns what it printed, or undefined where this machine cannot have the tool, which is said
 * @throws Error with what it printed where it is not content
 */
export async function runTool(
  t: ExecutionContext,
  name: string,
  args: readonly string[],
): Promise<string | undefined> {
  const program = await findProgram([name])
  if (program === undefined) {
    t.log(`NOT CHECKED: ${name} is missing, and npm test could not install it`)
    return undefined
  }
  const { stdout, stderr } = await promisify(execFile)(program, args)
  return stdout + stderr
}
