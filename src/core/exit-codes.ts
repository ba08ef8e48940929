// How the service's processes end; the numbers are those of sysexits.h.

export const exitCodes = {
  stopped: 0,
  /** Workers fail to come up, again and again. */
  noWorkers: 70,
  /** A port cannot be listened on. */
  portTaken: 71,
  /** The settings have a fault, or the database's schema is not the code's. */
  configuration: 78,
  /** As shells have it for Ctrl-C. */
  interrupted: 130,
} as const

/** A reason to end the process that its user can mend; the message is the whole of it. */
export class FatalError extends Error {
  readonly exitCode: number
  constructor(exitCode: number, message: string) {
    super(message)
    this.name = 'FatalError'
    this.exitCode = exitCode
  }
}
