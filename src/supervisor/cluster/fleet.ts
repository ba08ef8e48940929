// The fleet's record: which workers there are, and what each event makes of it. Pure; what to do about it is in plan.ts.
// Times are milliseconds of one monotonic clock.

const FIRST_BACKOFF_MS = 100
const MAX_BACKOFF_MS = 15_000
/** Who has been ready for so long did not die of what it was born with. */
const STABLE_MS = 30_000

export interface FleetWorker {
  readonly id: number
  readonly state: 'booting' | 'ready' | 'retiring'
  /** When it came into its state; while it boots and waits for the database, when it said so last. */
  readonly sinceMs: number
  /** When it last said something; undefined before its first word. */
  readonly lastHeardMs: number | undefined
  /** To be replaced: its code is old, or it takes too much memory. */
  readonly stale: boolean
  /** SIGKILL is on its way. */
  readonly killed: boolean
}

/** Why a worker ended. */
export interface Death {
  readonly reason: string
  /** Somebody else killed it: that says nothing about code which is known to come up. */
  readonly fromOutside: boolean
  /** With this the supervisor should end, if the worker never came up: trying again would not help. */
  readonly exitCode?: number
}

export type Reload =
  | { readonly state: 'idle' | 'running' | 'done' }
  | { readonly state: 'failed'; readonly reason: string }

export interface Fleet {
  readonly workers: readonly FleetWorker[]
  /** Deaths in a row, those of workers that were forked together counted once. */
  readonly deaths: number
  /** The deaths among them before the worker was ready; Infinity if trying again would not help. */
  readonly bootFailures: number
  readonly lastDeath: (Death & { readonly atMs: number }) | undefined
  readonly forkAfterMs: number
  readonly reload: Reload
  /** Workers retire at `closeAtMs`, and are killed at once where `cut`. */
  readonly stop: { readonly closeAtMs: number; readonly cut: boolean } | undefined
}

export type FleetEvent =
  | { readonly type: 'forked' | 'listening' | 'retired' | 'killed'; readonly id: number }
  | {
      readonly type: 'message'
      readonly id: number
      readonly withoutDatabase: boolean
      readonly overweight: boolean
    }
  | { readonly type: 'exited'; readonly id: number; readonly death: Death }
  | { readonly type: 'reload' | 'skipWait' | 'clockJump' }
  | { readonly type: 'stop'; readonly delayMs: number }

export const emptyFleet: Fleet = {
  workers: [],
  deaths: 0,
  bootFailures: 0,
  lastDeath: undefined,
  forkAfterMs: 0,
  reload: { state: 'idle' },
  stop: undefined,
}

/** How long to wait after so many deaths in a row. */
function backoffMs(deaths: number): number {
  return Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (deaths - 1))
}

function change(fleet: Fleet, id: number, to: (worker: FleetWorker) => Partial<FleetWorker>): Fleet {
  return {
    ...fleet,
    workers: fleet.workers.map(worker => (worker.id === id ? { ...worker, ...to(worker) } : worker)),
  }
}

/** What a death that was not asked for makes of the next forks. */
function blame(fleet: Fleet, worker: FleetWorker, death: Death, nowMs: number): Fleet {
  const booted = worker.state === 'ready'
  const proven = booted || fleet.workers.some(({ state }) => state === 'ready')
  if (death.fromOutside && proven) return fleet
  const stable = booted && nowMs - worker.sinceMs >= STABLE_MS
  const before = stable ? 0 : fleet.deaths
  const counted = stable || fleet.lastDeath === undefined || worker.sinceMs >= fleet.lastDeath.atMs
  if (!counted) return fleet
  const hopeless = !booted && death.exitCode !== undefined
  return {
    ...fleet,
    deaths: before + 1,
    bootFailures: booted ? fleet.bootFailures : hopeless ? Infinity : fleet.bootFailures + 1,
    lastDeath: { ...death, atMs: nowMs },
    // The first one that had been ready is replaced at once.
    forkAfterMs: booted && before === 0 ? nowMs : nowMs + backoffMs(before + (booted ? 0 : 1)),
  }
}

function exited(fleet: Fleet, id: number, death: Death, nowMs: number): Fleet {
  const worker = fleet.workers.find(one => one.id === id)
  const rest = { ...fleet, workers: fleet.workers.filter(one => one.id !== id) }
  if (worker === undefined || worker.state === 'retiring' || fleet.stop !== undefined) return rest
  const blamed = blame(rest, worker, death, nowMs)
  if (fleet.reload.state !== 'running' || worker.state !== 'booting' || worker.stale) return blamed
  // The new code does not come up: the old workers stay, and the old code is not to blame for it.
  return {
    ...blamed,
    bootFailures: fleet.bootFailures,
    lastDeath: fleet.lastDeath,
    reload: { state: 'failed', reason: death.reason },
    workers: blamed.workers.map(one => ({ ...one, stale: false })),
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
      return change(fleet, event.id, ({ state, sinceMs, stale }) => {
        // Without a database nobody comes up: no reason to kill, but one to give up a reload.
        const waits = event.withoutDatabase && state === 'booting' && fleet.reload.state !== 'running'
        const grown = event.overweight && state === 'ready' && nowMs - sinceMs >= STABLE_MS
        return { lastHeardMs: nowMs, sinceMs: waits ? nowMs : sinceMs, stale: stale || grown }
      })
    case 'listening':
      return {
        ...change(fleet, event.id, () => ({ state: 'ready', sinceMs: nowMs, lastHeardMs: nowMs })),
        bootFailures: 0,
      }
    case 'retired':
      return change(fleet, event.id, () => ({ state: 'retiring', sinceMs: nowMs }))
    case 'killed':
      return change(fleet, event.id, () => ({ killed: true }))
    case 'exited':
      return exited(fleet, event.id, event.death, nowMs)
    case 'reload':
      return {
        ...fleet,
        // New code has no deaths to answer for.
        deaths: 0,
        forkAfterMs: nowMs,
        reload: { state: 'running' },
        workers: fleet.workers.map(worker => ({ ...worker, stale: true })),
      }
    case 'clockJump':
      return {
        ...fleet,
        workers: fleet.workers.map(one => ({
          ...one,
          lastHeardMs: one.lastHeardMs === undefined ? undefined : nowMs,
        })),
      }
    case 'stop':
      return fleet.stop !== undefined
        ? fleet
        : { ...fleet, stop: { closeAtMs: nowMs + event.delayMs, cut: false } }
    case 'skipWait':
      return fleet.stop === undefined
        ? fleet
        : { ...fleet, stop: { closeAtMs: nowMs, cut: nowMs >= fleet.stop.closeAtMs } }
  }
}

/** The record after an event. */
export function reduce(fleet: Fleet, event: FleetEvent, wanted: number, nowMs: number): Fleet {
  const next = apply(fleet, event, nowMs)
  if (next.reload.state !== 'running') return next
  if (next.stop !== undefined) return { ...next, reload: { state: 'failed', reason: 'the service stops' } }
  const renewed = next.workers.filter(worker => worker.state === 'ready' && !worker.stale).length
  const old = next.workers.some(worker => worker.stale)
  return renewed >= wanted && !old ? { ...next, reload: { state: 'done' } } : next
}
