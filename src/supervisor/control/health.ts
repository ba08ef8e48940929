// Computes the response to a health check of a port. Pure: it uses state in memory, so a check causes no I/O.
import type { PortState } from '../port-states.ts'

export interface Health {
  readonly status: number
  readonly code: 'no_worker' | 'no_database' | 'maintenance' | 'serving'
  readonly message: string
}

export interface HealthFacts {
  readonly state: PortState
  /** One value of each worker that serves the port: since when the database is unreachable, as `Date.now()`. */
  readonly databaseDownSinceMs: readonly (number | undefined)[]
}

/** Returns the first result that applies, in the order: no worker, no database, maintenance, serving. */
export function healthOf(label: string, facts: HealthFacts, databaseGraceMs: number, nowMs: number): Health {
  const { state, databaseDownSinceMs } = facts
  const lost = (sinceMs: number | undefined) => sinceMs !== undefined && nowMs - sinceMs > databaseGraceMs
  if (databaseDownSinceMs.length === 0)
    return { status: 503, code: 'no_worker', message: `no worker serves ${label}` }
  if (databaseDownSinceMs.every(lost))
    return { status: 503, code: 'no_database', message: 'no worker can reach the database' }
  if (state !== 'serving') return { status: 404, code: 'maintenance', message: `${label} is ${state}` }
  return { status: 200, code: 'serving', message: `${label} is serving` }
}
