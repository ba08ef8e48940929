// One JSON line an event, on standard output.
import { type Logger, pino } from 'pino'
import type { Config } from './config.ts'

export type Log = Logger

// pino's own destination tries for ever, at the end of the process, to write to a reader that has gone (pm2's daemon).
process.stdout.on('error', () => {})
const output = { write: (line: string) => void process.stdout.write(line) }

/** @param role which process speaks: "supervisor", "worker" */
export function createLog(level: Config['log']['level'], role: string): Log {
  return pino({ level, base: { role, pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime }, output)
}
