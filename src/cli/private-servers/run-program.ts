// Runs a program to its end and says, if it fails, what the program itself said last.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const MAX_OUTPUT_BYTES = 2 ** 26

/**
 * @param input for its standard input
 * @returns its standard output
 * @throws Error with the errors that it printed, or else its last lines
 */
export async function runProgram(program: string, args: readonly string[], input = ''): Promise<string> {
  const running = promisify(execFile)(program, args, { maxBuffer: MAX_OUTPUT_BYTES })
  // A program that ends without reading all of its input says why by its exit code.
  running.child.stdin?.on('error', () => {}).end(input)
  try {
    return (await running).stdout
  } catch (error) {
    const printed = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
    const lines = printed.split('\n')
    const errors = lines.filter(line => /\bERROR\b|^E:/.test(line))
    const words = (errors.length > 0 ? errors : lines).slice(-3).join(' ')
    throw new Error(words === '' ? String(error) : `${program} failed: ${words}`)
  }
}
