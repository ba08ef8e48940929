// The tools that check the example configuration files in config/.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { ExecutionContext } from 'ava'
import { findProgram, type Program } from '../../src/cli/private-servers/programs.ts'
import { root } from '../../src/config/root.ts'

export const configTools: readonly Program[] = [
  { title: 'nginx', names: ['nginx'], debianPackage: 'nginx-light', brewFormula: 'nginx' },
  { title: 'promtool', names: ['promtool'], debianPackage: 'prometheus', brewFormula: 'prometheus' },
  { title: 'systemd-analyze', names: ['systemd-analyze'], debianPackage: 'systemd', brewFormula: 'systemd' },
  { title: 'socat', names: ['socat'], debianPackage: 'socat', brewFormula: 'socat' },
]

/** Returns the path of a file in config/. */
export const configFile = (name: string) => join(root, 'config', name)

/**
 * Runs a tool until it exits.
 * @returns its output, or undefined if the tool is not installed, which is logged
 * @throws Error with its output if it exits with another code than 0
 */
export async function runTool(
  t: ExecutionContext,
  name: string,
  args: readonly string[],
): Promise<string | undefined> {
  const program = findProgram([name])
  if (program === undefined) {
    t.log(`NOT CHECKED: ${name} is not installed and npm test could not install it`)
    return undefined
  }
  const { stdout, stderr } = await promisify(execFile)(program, args)
  return stdout + stderr
}
