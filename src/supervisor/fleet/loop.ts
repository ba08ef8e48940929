// Keeps the state of the fleet: records events in it (events.ts), and runs its plan (plan.ts) after them and at short intervals.
import { type FleetEvent, reduce } from './events.ts'
import { emptyFleet, type FleetState } from './fleet-state.ts'
import { type Action, type FleetSettings, plan } from './plan.ts'

/** How often the plan runs without an event: an action can come so much later than its time. */
const TICK_MS = 100

/**
 * Returns a clock in ms that does not count suspensions of the supervisor, in which its workers may be suspended as well: between
 * two readings it advances by at most `maxStepMs`.
 */
function createClock(maxStepMs: number): () => number {
  let [nowMs, readMs] = [0, performance.now()]
  return () => {
    const before = readMs
    readMs = performance.now()
    nowMs += Math.min(readMs - before, maxStepMs)
    return nowMs
  }
}

/**
 * All times are those of its clock.
 * @param perform performs an action of the plan, and records its result: the plan runs again after it
 */
export function createLoop(settings: FleetSettings, perform: (action: Action) => void) {
  let fleet: FleetState = emptyFleet
  /** The checks of the conditions that `until` waits for. They run after each event. */
  const waiting = new Set<() => void>()
  /** Also true before the start, when there are no sockets for workers: commands take effect with the first run. */
  let isRunScheduled = true
  // A step leaves every worker the time for a heartbeat before it is killed.
  const maxStepMs = Math.min(settings.beatMs, settings.silentMs / 4)
  const clock = createClock(maxStepMs)

  function record(event: FleetEvent): void {
    fleet = reduce(fleet, event, settings, clock())
    for (const check of waiting) check()
    scheduleRun()
  }

  /** Resolves as soon as a condition is true, or after `timeoutMs`. */
  async function until(condition: (fleet: FleetState) => boolean, timeoutMs?: number): Promise<void> {
    if (condition(fleet)) return
    await new Promise<void>(resolve => {
      const end = () => {
        clearTimeout(timeout)
        waiting.delete(check)
        resolve()
      }
      const check = () => condition(fleet) && end()
      const timeout = timeoutMs === undefined ? undefined : setTimeout(end, timeoutMs)
      waiting.add(check)
    })
  }

  /** Runs the plan after the messages that have already arrived, so that no worker is killed despite a pending message. */
  function scheduleRun(): void {
    if (isRunScheduled) return
    isRunScheduled = true
    setImmediate(run)
  }

  function run(): void {
    isRunScheduled = false
    for (const action of plan(fleet, settings, clock())) perform(action)
  }

  return {
    state: () => fleet,
    record,
    until,
    clock,
    start(): void {
      // Often enough that a busy supervisor does not lose time.
      setInterval(scheduleRun, Math.min(TICK_MS, maxStepMs / 3))
      run()
    },
  }
}
