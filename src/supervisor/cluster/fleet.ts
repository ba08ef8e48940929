// The state of the worker fleet: which workers exist, how often they failed, and whether a reload or a stop is running.
// `reduce` is pure: it returns the state after one event. It neither forks nor kills: plan.ts derives the actions from
// the state, and processes.ts performs them. All times are milliseconds of one monotonic clock.

const FIRST_BACKOFF_MS = 100
const MAX_BACKOFF_MS = 15_000
/** A worker that was ready this long counts as stable: its failure resets the backoff. */
const STABLE_MS = 30_000

export interface FleetWorker {
  readonly id: number
  readonly state: 'booting' | 'ready' | 'retiring'
  /** When the worker entered its state. While it boots and waits for the database: the time of its last message. */
  readonly sinceMs: number
  /** Time of the last message, moved forward by each suspension of the supervisor; undefined before the first message. */
  readonly lastHeardMs: number | undefined
  /** To be replaced: it runs old code, or it uses too much memory. */
  readonly stale: boolean
  /** SIGKILL has been sent. */
  readonly killed: boolean
}

/** Why a worker exited. */
export interface ExitCause {
  readonly reason: string
  /** SIGKILL that the supervisor did not send. It is no evidence against code that is known to boot. */
  readonly killedExternally: boolean
  /** The exit code for the supervisor if no worker becomes ready. Set only for causes that a retry cannot fix. */
  readonly exitCode?: number
}

export type Reload =
  | { readonly state: 'idle' | 'running' | 'done' }
  | { readonly state: 'failed'; readonly reason: string }

export interface Fleet {
  readonly workers: readonly FleetWorker[]
  /** Consecutive failures. Workers that were forked together count once. */
  readonly failures: number
  /** Consecutive failures before the worker was ready; Infinity if a retry cannot help. */
  readonly bootFailures: number
  readonly lastFailure: (ExitCause & { readonly atMs: number }) | undefined
  /** Earliest time of the next fork. */
  readonly forkAfterMs: number
  readonly reload: Reload
  /** Ready workers retire at `retireAtMs`. With `killNow` all workers are killed at once. */
  readonly stop: { readonly retireAtMs: number; readonly killNow: boolean } | undefined
}

export type FleetEvent =
  | { readonly type: 'forked' | 'listening' | 'retired' | 'killed'; readonly id: number }
  | {
      readonly type: 'message'
      readonly id: number
      readonly withoutDatabase: boolean
      readonly overMemoryLimit: boolean
    }
  | { readonly type: 'exited'; readonly id: number; readonly cause: ExitCause }
  | { readonly type: 'reload' | 'skipWait' }
  /** The supervisor itself was suspended or blocked for `byMs`. It could not read messages meanwhile. */
  | { readonly type: 'clockJump'; readonly byMs: number }
  | { readonly type: 'stop'; readonly delayMs: number }

export const emptyFleet: Fleet = {
  workers: [],
  failures: 0,
  bootFailures: 0,
  lastFailure: undefined,
  forkAfterMs: 0,
  reload: { state: 'idle' },
  stop: undefined,
}

function backoffMs(failures: number): number {
  return Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (failures - 1))
}

function updateWorker(
  fleet: Fleet,
  id: number,
  update: (worker: FleetWorker) => Partial<FleetWorker>,
): Fleet {
  return {
    ...fleet,
    workers: fleet.workers.map(worker => (worker.id === id ? { ...worker, ...update(worker) } : worker)),
  }
}

/** Counts an unexpected exit and sets the earliest time of the next fork. */
function recordFailure(fleet: Fleet, worker: FleetWorker, cause: ExitCause, nowMs: number): Fleet {
  const wasReady = worker.state === 'ready'
  const codeBoots = wasReady || fleet.workers.some(({ state }) => state === 'ready')
  if (cause.killedExternally && codeBoots) return fleet
  const wasStable = wasReady && nowMs - worker.sinceMs >= STABLE_MS
  const previousFailures = wasStable ? 0 : fleet.failures
  // A worker that has not changed its state since the last failure belongs to the same round, which counts once.
  const isNewRound = wasStable || fleet.lastFailure === undefined || worker.sinceMs >= fleet.lastFailure.atMs
  if (!isNewRound) return fleet
  const retryIsFutile = !wasReady && cause.exitCode !== undefined
  const bootFailures = retryIsFutile ? Infinity : fleet.bootFailures + 1
  return {
    ...fleet,
    failures: previousFailures + 1,
    bootFailures: wasReady ? fleet.bootFailures : bootFailures,
    lastFailure: { ...cause, atMs: nowMs },
    // The first failure of a worker that had been ready causes no backoff.
    forkAfterMs:
      wasReady && previousFailures === 0 ? nowMs : nowMs + backoffMs(previousFailures + (wasReady ? 0 : 1)),
  }
}

function exited(fleet: Fleet, id: number, cause: ExitCause, nowMs: number): Fleet {
  const worker = fleet.workers.find(one => one.id === id)
  const rest = { ...fleet, workers: fleet.workers.filter(one => one.id !== id) }
  if (worker === undefined || worker.state === 'retiring' || fleet.stop !== undefined) return rest
  const next = recordFailure(rest, worker, cause, nowMs)
  if (fleet.reload.state !== 'running' || worker.state !== 'booting' || worker.stale) return next
  // The new code fails to boot: the reload ends, the old workers stay, and the old code gets no boot failure for it.
  return {
    ...next,
    bootFailures: fleet.bootFailures,
    lastFailure: fleet.lastFailure,
    reload: { state: 'failed', reason: cause.reason },
    workers: next.workers.map(one => ({ ...one, stale: false })),
  }
}

function apply(fleet: Fleet, event: FleetEvent, nowMs: number): Fleet {
  switch (event.type) {
    case 'forked': {
      const worker: FleetWorker = {
        id: event.id,
        state: 'booting',
        sinceMs: nowMs,
        lastHeardMs: undefined,
        stale: false,
        killed: false,
      }
      return { ...fleet, workers: [...fleet.workers, worker] }
    }
    case 'message':
      return updateWorker(fleet, event.id, ({ state, sinceMs, stale }) => {
        // Without a database no worker can boot, so its boot timeout is suspended. During a reload it is not: the reload
        // fails instead, and the old workers stay.
        const suspendTimeout =
          event.withoutDatabase && state === 'booting' && fleet.reload.state !== 'running'
        // A new worker is exempt, so a limit below normal use causes at most one replacement every STABLE_MS.
        const hasGrown = event.overMemoryLimit && state === 'ready' && nowMs - sinceMs >= STABLE_MS
        return { lastHeardMs: nowMs, sinceMs: suspendTimeout ? nowMs : sinceMs, stale: stale || hasGrown }
      })
    case 'listening':
      return {
        ...updateWorker(fleet, event.id, () => ({ state: 'ready', sinceMs: nowMs, lastHeardMs: nowMs })),
        bootFailures: 0,
      }
    case 'retired':
      return updateWorker(fleet, event.id, () => ({ state: 'retiring', sinceMs: nowMs }))
    case 'killed':
      return updateWorker(fleet, event.id, () => ({ killed: true }))
    case 'exited':
      return exited(fleet, event.id, event.cause, nowMs)
    case 'reload':
      return {
        ...fleet,
        // The failures of the old code do not delay the new code.
        failures: 0,
        forkAfterMs: nowMs,
        reload: { state: 'running' },
        workers: fleet.workers.map(worker => ({ ...worker, stale: true })),
      }
    case 'clockJump':
      return {
        ...fleet,
        workers: fleet.workers.map(one => ({
          ...one,
          lastHeardMs:
            one.lastHeardMs === undefined ? undefined : Math.min(nowMs, one.lastHeardMs + event.byMs),
        })),
      }
    case 'stop':
      return fleet.stop !== undefined
        ? fleet
        : { ...fleet, stop: { retireAtMs: nowMs + event.delayMs, killNow: false } }
    case 'skipWait':
      return fleet.stop === undefined
        ? fleet
        : { ...fleet, stop: { retireAtMs: nowMs, killNow: nowMs >= fleet.stop.retireAtMs } }
  }
}

/**
 * Returns the state after an event.
 * @param targetWorkers number of workers that should be ready: a reload is done when so many run the new code
 */
export function reduce(fleet: Fleet, event: FleetEvent, targetWorkers: number, nowMs: number): Fleet {
  const next = apply(fleet, event, nowMs)
  if (next.reload.state !== 'running') return next
  if (next.stop !== undefined)
    return { ...next, reload: { state: 'failed', reason: 'the service is stopping' } }
  const fresh = next.workers.filter(worker => worker.state === 'ready' && !worker.stale).length
  const hasStale = next.workers.some(worker => worker.stale)
  return fresh >= targetWorkers && !hasStale ? { ...next, reload: { state: 'done' } } : next
}
