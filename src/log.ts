// One JSON line an event, on standard output.
import { type Logger, pino } from 'pino'
import type { Config } from './config.ts'

export type Log = Logger

/** @param role which process speaks: "supervisor", "worker" */
export function createLog(level: Config['log']['level'], role: string): Log {
  return pino({ level, base: { role, pid: process.pid }, timestamp: pino.stdTimeFunctions.isoTime })
}
