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

/** All times are values of `performance.now()`. */
export function createLoop({ limits, tickMs, perform, reloadEnded }: LoopOptions) {
  let fleet: FleetState = emptyFleet
  let timer: NodeJS.Timeout | undefined
  /** Also true before the start, when there are no sockets for workers: commands take effect with the first run. */
  let isRunScheduled = true
  let lastRunMs = performance.now()

  function record(event: FleetEvent): void {
    const before = fleet.reload
    fleet = reduce(fleet, event, limits.workers, performance.now())
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
    const nowMs = performance.now()
    // The own timer is late: the supervisor was suspended and read no messages. Shorter gaps are harmless, because they
    // leave every worker the time for one heartbeat.
    const gapMs = nowMs - lastRunMs
    lastRunMs = nowMs
    if (gapMs > 2 * tickMs) record({ type: 'clockJump', byMs: gapMs })
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

  return { state: () => fleet, record, start: run, lastRunMs: () => lastRunMs }
}
