// How the service and its commands exit: their exit codes, of which those with a name that begins with EX_ are from sysexits.h,
// and the time that a worker has for it.
import { ConfigError } from '../config/config.ts'

export const exitCodes = {
  stopped: 0,
  /** Wrong command line. */
  usage: 2,
  /** LSB: the service is not running. */
  notRunning: 3,
  /** The service does not reply in time. */
  noReply: 4,
  /** EX_DATAERR: the file cannot be imported. */
  invalidFile: 65,
  /** EX_UNAVAILABLE: the service, or the database of a command, does not respond or cannot be used. */
  unavailable: 69,
  /** EX_SOFTWARE: no worker can start. */
  noWorkers: 70,
  /** EX_OSERR: the process cannot listen on a port or on the control socket. */
  portTaken: 71,
  /** EX_IOERR: pm2's daemon, or the reader of the standard output, is gone. Not 0, so that systemd starts the service again. */
  orphaned: 74,
  /** EX_NOPERM: the service does not accept the token. */
  notAllowed: 77,
  /** EX_CONFIG: the settings are invalid, or this code cannot use the database schema. */
  configuration: 78,
  /** 128 + SIGINT, the shell convention for Ctrl-C. */
  interrupted: 130,
} as const

/** Extra time after the drain deadline in which a worker exits by itself. */
export const EXIT_GRACE_MS = 2000

/** An error that ends the process and that the operator can fix. Only its message is printed. */
export class FatalError extends Error {
  readonly exitCode: number
  constructor(exitCode: number, message: string) {
    super(message)
    this.name = 'FatalError'
    this.exitCode = exitCode
  }
}

/** Returns the exit code for an error that the operator can fix; undefined for others. */
export function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof FatalError) return error.exitCode
  return error instanceof ConfigError ? exitCodes.configuration : undefined
}
