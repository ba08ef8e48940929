// Spreads the active connections of each port over the workers. A worker with more than its fair share lets go of some
// and accepts none, so that the clients come to the others. The kernel alone does not spread connections: while a machine
// is idle, it wakes the same worker for each one that a proxy opens.
import type { WorkerView } from './worker-view.ts'

/** A worker has too many connections if it has this part more than the mean, but at least one more. */
const TOLERANCE = 0.1

/** A worker that has sent no message for this many heartbeat intervals may hang. A heartbeat can be late by some ms. */
const MAY_HANG_AFTER_BEATS = 1.5

/** By port label: the number of active connections that a worker keeps. Ports without too many are missing. */
export type MaxActive = Readonly<Record<string, number>>

type Candidate = Pick<WorkerView, 'id' | 'state' | 'missedHeartbeats' | 'heartbeat'>

/**
 * Returns the limits by worker id. A worker accepts none for a moment only, so a limit that stands is sent again. A worker that
 * may hang accepts no connections, so it has no part in the mean: the others must not leave any to it.
 */
export function balance(candidates: readonly Candidate[]): Map<number, MaxActive> {
  const workers = candidates.filter(
    ({ state, missedHeartbeats }) => state === 'ready' && missedHeartbeats <= MAY_HANG_AFTER_BEATS,
  )
  const labels = new Set(workers.flatMap(({ heartbeat }) => Object.keys(heartbeat?.ports ?? {})))
  const limits = new Map<number, MaxActive>()
  for (const label of labels) {
    const counts = workers.map(({ id, heartbeat }) => ({ id, count: heartbeat?.ports[label]?.active ?? 0 }))
    const mean = counts.reduce((sum, { count }) => sum + count, 0) / counts.length
    if (counts.every(({ count }) => count - mean < Math.max(1, TOLERANCE * mean))) continue
    // Half of the excess stays: other workers may have connections that they have not reported yet. A worker keeps the mean,
    // rounded up, or the last connections would go round for ever.
    const kept = (count: number) => Math.max(Math.ceil(mean), Math.floor((count + mean) / 2))
    for (const { id, count } of counts)
      if (count >= mean) limits.set(id, { ...limits.get(id), [label]: kept(count) })
  }
  return limits
}
