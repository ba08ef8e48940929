// The turns of pages whose cost can grow with the number of records. A fast page does not wait for slow ones.
import { createSemaphore } from '../../core/semaphore.ts'

/**
 * Runs a page in its turn. While no turn is free, it gets a trial first.
 * @param trial returns the page, or undefined if it is slow
 * @throws ApiError `unavailable` if it gets no turn in time
 */
export type InPageTurn = <T>(page: () => Promise<T>, trial: () => Promise<T | undefined>) => Promise<T>

/**
 * @param max how many pages have a turn at the same time; one more can have a trial
 * @param timeoutMs how long a page waits for its trial, and how long for its turn
 */
export function createPageTurns(max: number, timeoutMs: number): InPageTurn {
  const inTurn = createSemaphore(max, timeoutMs)
  const inTrial = createSemaphore(1, timeoutMs)
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
    // A turn can be free again when the trial begins.
    const found = await inTrial(async () => (pages < max ? undefined : trial()))
    return found ?? run(page)
  }
}
