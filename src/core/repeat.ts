// Runs a task again and again.
import { reasonOf } from './error-reason.ts'
import type { Log } from './log.ts'

/**
 * Runs `task` now, and again `everyMs` after each end. The timer does not keep the process alive.
 * @param onError is called with the error of a run that rejects; the task is repeated all the same
 * @returns a promise that resolves after the first run
 */
export async function repeat(
  everyMs: number,
  task: () => Promise<unknown>,
  onError: (error: unknown) => void,
): Promise<void> {
  await task().catch(onError)
  setTimeout(() => repeat(everyMs, task, onError), everyMs).unref()
}

/**
 * Returns a function that runs a task. It logs an error as `fault`, unless the task before it had the same one, and the first
 * success after errors as `end`.
 */
export function createFaultLog(log: Log, fault: string, end: string) {
  let last: string | undefined

  return async (task: () => Promise<void>): Promise<void> => {
    try {
      await task()
      if (last !== undefined) log.info(end)
      last = undefined
    } catch (error) {
      const reason = reasonOf(error)
      if (reason !== last) log.error({ reason }, fault)
      last = reason
    }
  }
}
