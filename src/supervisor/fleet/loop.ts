// Keeps the state of the fleet: records events in it (events.ts), and runs its plan (plan.ts) after them and at the next deadline.
import { type FleetEvent, reduce } from './events.ts'
import { emptyFleet, type FleetState, type Reload } from './fleet-state.ts'
import { type Action, type Limits, plan } from './plan.ts'

interface LoopOptions {
  readonly limits: Limits
  /** Maximum time between two runs of the plan, unless the supervisor itself is suspended. */
  readonly tickMs: number
  /** Performs an action of the plan, and records its result. */
  perform(action: Action): void
  reloadEnded(outcome: Reload): void
}

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

/** All times are those of its clock. */
export function createLoop({ limits, tickMs, perform, reloadEnded }: LoopOptions) {
  let fleet: FleetState = emptyFleet
  let timer: NodeJS.Timeout | undefined
  /** Also true before the start, when there are no sockets for workers: commands take effect with the first run. */
  let isRunScheduled = true
  // Its timer reads the clock at least once a tick. A step leaves every worker the time for a heartbeat before it is killed.
  const clock = createClock(1.5 * tickMs)

  function record(event: FleetEvent): void {
    const before = fleet.reload
    fleet = reduce(fleet, event, limits.workers, clock())
    if (before.state === 'running' && fleet.reload.state !== 'running') reloadEnded(fleet.reload)
    scheduleRun()
  }

  /** Runs the plan after the messages that have already arrived, so that no worker is killed despite a pending message. */
  function scheduleRun(): void {
    if (isRunScheduled) return
    isRunScheduled = true
    setImmediate(run)
  }

  function run(): void {
    const nowMs = clock()
    for (;;) {
      const { actions, nextRunAtMs } = plan(fleet, limits, nowMs)
      if (actions.length === 0) {
        clearTimeout(timer)
        timer = setTimeout(scheduleRun, Math.min(Math.ceil(nextRunAtMs - nowMs), tickMs))
        break
      }
      for (const action of actions) perform(action)
    }
    isRunScheduled = false
  }

  return { state: () => fleet, record, start: run, clock }
}
