// Runs a program and collects its output. If the program fails, the error contains the program's own error lines.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const MAX_OUTPUT_BYTES = 2 ** 26

/**
 * @param input the program's standard input
 * @returns its standard output
 * @throws Error with the first error lines that the program printed, which have the cause, or else its last lines
 */
export async function runProgram(program: string, args: readonly string[], input = ''): Promise<string> {
  const running = promisify(execFile)(program, args, { maxBuffer: MAX_OUTPUT_BYTES })
  // A program that exits before it has read all of its input causes EPIPE here. Its exit code tells whether it
  // failed.
  running.child.stdin?.on('error', () => {}).end(input)
  try {
    return (await running).stdout
  } catch (error) {
    const printed = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
    const lines = printed.split('\n')
    const errors = lines.filter(line => /\bERROR\b|^E:/.test(line))
    const shown = (errors.length > 0 ? errors.slice(0, 3) : lines.slice(-3)).join(' ')
    throw new Error(shown === '' ? String(error) : `${program} failed: ${shown}`)
  }
}
