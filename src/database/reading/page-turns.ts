// The turns of pages whose cost can grow with the number of records. A fast page does not wait for slow ones.
import { createSemaphore } from '../../core/semaphore.ts'

/** A page that gets no trial in this time waits for its turn instead: the one before it can be on a dead connection. */
const TRIAL_WAIT_MS = 1000

/**
 * Runs a page in its turn. While no turn is free, it gets a trial first.
 * @param trial returns the page, or undefined if it is slow
 * @throws ApiError `unavailable` if it gets no turn in time
 */
export type InPageTurn = <T>(page: () => Promise<T>, trial: () => Promise<T | undefined>) => Promise<T>

/**
 * @param max how many pages have a turn at the same time; one more can have a trial
 * @param timeoutMs how long a page waits for its turn
 * @param trialWaitMs how long it waits for a trial before
 */
export function createPageTurns(max: number, timeoutMs: number, trialWaitMs = TRIAL_WAIT_MS): InPageTurn {
  const inTurn = createSemaphore(max, timeoutMs)
  const inTrial = createSemaphore(1, trialWaitMs)
  /** The number of pages that have a turn, or wait for one after their trial. */
  let pages = 0

  async function run<T>(page: () => Promise<T>): Promise<T> {
    pages++
    try {
      return await inTurn(page)
    } finally {
      pages--
    }
  }

  return async (page, trial) => {
    if (pages < max) return run(page)
    let hasTrial = false
    const found = await inTrial(async () => {
      hasTrial = true
      // A turn can be free again.
      return pages < max ? undefined : trial()
    }).catch(error => {
      if (hasTrial) throw error
    })
    return found ?? run(page)
  }
}
