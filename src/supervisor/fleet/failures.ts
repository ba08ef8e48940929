// What the failures of workers do to the state of the fleet: they delay the next fork, and they count against code that does not boot.
import type { ExitCause, FleetState, FleetWorker } from './fleet-state.ts'

const FIRST_BACKOFF_MS = 100
const MAX_BACKOFF_MS = 15_000
/** A worker that was ready this long counts as stable: its failure resets the backoff. */
const STABLE_MS = 30_000

export const isStable = ({ state, sinceMs }: FleetWorker, nowMs: number): boolean =>
  state === 'ready' && nowMs - sinceMs >= STABLE_MS

/** Returns the pause before the next fork. @param failures the number of failures in a row */
function backoffMs(failures: number): number {
  return failures === 0 ? 0 : Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (failures - 1))
}

/** @param worker has exited before it was ready */
function bootFailuresAfter({ bootFailures }: FleetState, worker: FleetWorker, cause: ExitCause): number {
  // A retry cannot fix a cause with an exit code.
  if (cause.exitCode !== undefined) return Infinity
  // A reload ends the boot of a worker that waits for the database: that is no failure of its code.
  const hasWaited = worker.killed && worker.heartbeat?.databaseDownMs !== undefined
  return hasWaited ? bootFailures : bootFailures + 1
}

/** Counts an unexpected exit and sets the earliest time of the next fork. */
export function recordFailure(
  fleet: FleetState,
  worker: FleetWorker,
  cause: ExitCause,
  nowMs: number,
): FleetState {
  const wasReady = worker.state === 'ready'
  const codeBoots = wasReady || fleet.workers.some(({ state }) => state === 'ready')
  if (cause.killedExternally && codeBoots) return fleet
  const wasStable = isStable(worker, nowMs)
  const previousFailures = wasStable ? 0 : fleet.failures
  // A worker that has not changed its state since the last failure belongs to the same round, which counts once.
  const isNewRound = wasStable || fleet.lastFailure === undefined || worker.sinceMs >= fleet.lastFailure.atMs
  if (!isNewRound) return fleet
  return {
    ...fleet,
    failures: previousFailures + 1,
    bootFailures: wasReady ? fleet.bootFailures : bootFailuresAfter(fleet, worker, cause),
    lastFailure: { ...cause, atMs: nowMs },
    // The first failure of a worker that had been ready causes no backoff.
    forkAfterMs: nowMs + backoffMs(wasReady ? previousFailures : previousFailures + 1),
  }
}
