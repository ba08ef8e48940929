// One JSON line an event, on standard output.
import { type Logger, pino } from 'pino'
import { createOutput, type LineOutput } from './log-output.ts'
import type { LogLevel } from './settings.ts'

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
 * A log whose lines are written at once, and an output for lines that are made very often: they are written soon.
 * @param role which process speaks: "supervisor", "worker"
 */
export function createLogAndOutput(level: LogLevel, role: string): { log: Log; soon: LineOutput } {
  const { now, soon } = createOutput(process.stdout, lines =>
    log.warn({ lines }, 'nobody has read the log in time: lines are lost'),
  )
  const log = pino({ level, base: { role, pid: process.pid }, timestamp: createTimestamp() }, now)
  return { log, soon }
}

/** @param role which process speaks: "supervisor", "migrate" */
export function createLog(level: LogLevel, role: string): Log {
  return createLogAndOutput(level, role).log
}
