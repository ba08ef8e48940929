// Structured logging: one JSON line per event on standard output.
import { type Logger, pino } from 'pino'
import type { LogLevel } from '../config/schema.ts'
import { createOutput } from './log-output.ts'

export type Log = Logger

/** Returns a function that formats the current time for a log line. The text is cached for a millisecond. */
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
 * Serializes an error. The error of a database server is reduced to the server's message: Knex prepends the SQL statement to
 * the message, and so to the stack.
 */
function describeReason(reason: unknown): unknown {
  if (!(reason instanceof Error)) return reason
  const { name, message, stack, cause } = reason
  const code = 'code' in reason ? reason.code : undefined
  if ('sqlMessage' in reason) return { name, code, message: reason.sqlMessage }
  return { name, code, message, stack, ...(cause !== undefined && { cause: describeReason(cause) }) }
}

/**
 * Creates a log that writes lines immediately, and a buffered output for frequent lines.
 * @param role the kind of process, such as "worker"
 * @param node the name of the node; without one, the lines have no such field
 */
export function createLogAndOutput(level: LogLevel, role: string, node?: string) {
  const { immediate, buffered } = createOutput(process.stdout, lines =>
    log.warn({ lines }, 'log reader too slow, lines dropped'),
  )
  const options = {
    level,
    base: { role, pid: process.pid, node },
    timestamp: createTimestamp(),
    serializers: { reason: describeReason },
  }
  const log: Log = pino(options, immediate)
  return { log, buffered }
}

/** Creates a log as `createLogAndOutput` does. */
export function createLog(level: LogLevel, role: string, node?: string): Log {
  return createLogAndOutput(level, role, node).log
}
