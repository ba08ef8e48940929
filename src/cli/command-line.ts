// Shared by the commands that are run from a terminal: the exit code, and one message if a command fails.
import { ConfigError } from '../config/config.ts'
import { exitCodes, FatalError } from '../core/exit-codes.ts'

export const serviceName = 'users-api'

export function print(line: string): void {
  console.log(`${serviceName}: ${line}`)
}

function exitCodeFor(error: unknown): number {
  if (error instanceof ConfigError) return exitCodes.configuration
  return error instanceof FatalError ? error.exitCode : 1
}

/**
 * Runs a command. If the command throws, its error message is printed.
 * @returns the exit code: the one that the command returns, or the one for the error that it throws
 */
export async function runCommand(command: () => Promise<number>): Promise<number> {
  try {
    return await command()
  } catch (error) {
    console.error(`${serviceName}: ${error instanceof Error ? error.message : error}`)
    return exitCodeFor(error)
  }
}
