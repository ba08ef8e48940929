// What the commands that people type have in common: they end with an exit code and, if they fail, with one message.
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
 * Runs a command to its end.
 * @returns the exit code: the command's own, or one for the error that it threw, whose message has been printed
 */
export async function runCommand(command: () => Promise<number>): Promise<number> {
  try {
    return await command()
  } catch (error) {
    console.error(`${serviceName}: ${error instanceof Error ? error.message : error}`)
    return exitCodeFor(error)
  }
}
