// One JSON line an event, on standard output.
import { type Logger, pino } from 'pino'
import type { LogLevel } from '../config/schema.ts'
import { createOutput, type LineOutput } from './log-output.ts'

export type Log = Logger

/** The time as a line has it; the text is made once a millisecond, not once a line. */
export function createTimestamp(): () => string {
  let atMs = 0
  let text = ''
  return () => {
    const nowMs = Date.now()
    if (nowMs !== atMs) {
      atMs = nowMs
      text = `,"time":"${new Date(nowMs).toISOString()}"`
    }
    return text
  }
}

/**
 * An error as a line has it: whole, or what the database said of a statement, but not the statement, for that has in it
 * what people are called.
 */
function describeReason(reason: unknown): unknown {
  if (!(reason instanceof Error)) return reason
  const { name, message, stack, cause } = reason
  const code = 'code' in reason ? reason.code : undefined
  if ('sqlMessage' in reason) return { name, code, message: reason.sqlMessage }
  return { name, code, message, stack, ...(cause !== undefined && { cause: describeReason(cause) }) }
}

/**
 * A log whose lines are written at once, and an output for lines that are made very often: they are written soon.
 * @param role which process speaks: "supervisor", "worker"
 */
export function createLogAndOutput(level: LogLevel, role: string): { log: Log; soon: LineOutput } {
  const { now, soon } = createOutput(process.stdout, lines =>
    log.warn({ lines }, 'nobody has read the log in time: lines are lost'),
  )
  const options = {
    level,
    base: { role, pid: process.pid },
    timestamp: createTimestamp(),
    serializers: { reason: describeReason },
  }
  const log = pino(options, now)
  return { log, soon }
}

/** @param role which process speaks: "supervisor", "migrate" */
export function createLog(level: LogLevel, role: string): Log {
  return createLogAndOutput(level, role).log
}
