// Shared by the commands that are run from a terminal: the exit code, and what is printed if a command fails.
import { hasCode } from '../core/error-reason.ts'
import { exitCodeOf, exitCodes } from '../core/exit-codes.ts'
import { printable } from '../core/quoted.ts'

export const serviceName = 'users-api'

export function print(line: string): void {
  console.log(`${serviceName}: ${line}`)
}

/** Returns the width of a terminal. Some report a width of 0. */
export const columnsOf = ({ columns }: { readonly columns: number }): number => columns || 80

/** The command line is not one that the usage describes. The message, if there is one, says what is wrong. */
export class UsageError extends Error {}

const isUsageError = (error: unknown): boolean =>
  error instanceof UsageError || (hasCode(error) && error.code.startsWith('ERR_PARSE_ARGS_'))

const exitCodeFor = (error: unknown): number =>
  isUsageError(error) ? exitCodes.usage : (exitCodeOf(error) ?? 1)

/**
 * Runs a command. If the command throws, its error message is printed. With `--help`, the usage is printed instead.
 * @param usage printed as well if `command` throws a UsageError, or `parseArgs` throws
 * @returns the exit code: the one that the command returns, or the one for the error that it throws
 */
export async function runCommand(command: () => Promise<number>, usage = ''): Promise<number> {
  // The reader of the output can end first, as in `npm start | head -1`. That must not end the command halfway.
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', error => {
      if (!hasCode(error, 'EPIPE')) throw error
    })
  if (process.argv.slice(2).some(argument => argument === '--help' || argument === '-h')) {
    console.log(usage)
    return 0
  }
  try {
    return await command()
  } catch (error) {
    const message = (error instanceof Error ? error.message : String(error))
      .split('\n')
      .map(printable)
      .join('\n')
    const lines = [
      ...(message === '' ? [] : [`${serviceName}: ${message}`]),
      ...(isUsageError(error) ? [usage] : []),
    ]
    console.error(lines.join('\n\n'))
    return exitCodeFor(error)
  }
}
