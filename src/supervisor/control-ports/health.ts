// Computes the response to a health check of a port, from state in memory: a check causes no I/O.
import { hangs, type WorkerView } from '../fleet/worker-view.ts'
import type { PortState } from '../port-states.ts'

export interface Health {
  readonly status: number
  readonly code: 'no_worker' | 'no_database' | 'maintenance' | 'serving'
  readonly message: string
}

/**
 * Whether a worker serves requests. While the service stops, retiring workers still serve their open connections.
 * A worker that hangs serves none, although it is killed only later.
 */
export function isServing(
  worker: Pick<WorkerView, 'state' | 'missedHeartbeats'>,
  isStopping: boolean,
): boolean {
  return (worker.state === 'ready' || isStopping) && !hangs(worker)
}

/** Returns for how long a worker has been without its database, in ms: what it reported, and the time since then. */
export function databaseDownMs({ heartbeat, silentMs }: WorkerView): number | undefined {
  const downMs = heartbeat?.databaseDownMs
  return downMs === undefined ? undefined : downMs + silentMs
}

/**
 * Returns the first result that applies, in the order: no worker, no database, maintenance, serving.
 * @param databaseDownMs one value of each worker that serves the port: for how long the database has been unreachable
 */
export function healthOf(
  label: string,
  state: PortState,
  databaseDownMs: readonly (number | undefined)[],
  databaseGraceMs: number,
): Health {
  const lost = (downMs: number | undefined) => downMs !== undefined && downMs > databaseGraceMs
  if (databaseDownMs.length === 0)
    return { status: 503, code: 'no_worker', message: `no worker serves ${label}` }
  if (databaseDownMs.every(lost))
    return { status: 503, code: 'no_database', message: 'no worker can reach the database' }
  if (state !== 'serving') return { status: 404, code: 'maintenance', message: `${label} is ${state}` }
  return { status: 200, code: 'serving', message: `${label} is serving` }
}
