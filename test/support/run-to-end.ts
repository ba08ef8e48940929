// Runs a program as a child process and collects its output.
import { spawn } from 'node:child_process'
import { root } from '../../src/config/root.ts'

export interface Outcome {
  code: number | null
  stdout: string
  stderr: string
}

/** Shorter than AVA's timeout of a test: `pm2 trigger` waits forever if it misses the exit of the app. */
const MAX_MS = 100_000

/** @param cwd the working directory; by default the project's folder */
export function runToEnd(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
  cwd = root,
): Promise<Outcome> {
  const child = spawn(program, args, { cwd, env, timeout: MAX_MS })
  const outcome: Outcome = { code: null, stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', text => (outcome.stdout += text))
  child.stderr.setEncoding('utf8').on('data', text => (outcome.stderr += text))
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => resolve({ ...outcome, code }))
  })
}

/** Runs a JavaScript or TypeScript file with Node. */
export function runNode(
  script: string,
  args: readonly string[] = [],
  env?: NodeJS.ProcessEnv,
  cwd?: string,
): Promise<Outcome> {
  return runToEnd(
    process.execPath,
    [...(script.endsWith('.ts') ? ['--import=tsx'] : []), script, ...args],
    env,
    cwd,
  )
}
