// Limits how many operations are in progress.
import { unavailable } from './api-error.ts'

/**
 * Runs an operation as soon as fewer than the maximum are in progress. Urgent ones start before the others, and both in the order of
 * the calls.
 * @throws ApiError `unavailable` if the operation could not start in time
 */
export type Semaphore = <T>(operation: () => Promise<T>, isUrgent?: boolean) => Promise<T>

export function createSemaphore(max: number, timeoutMs: number): Semaphore {
  let inProgress = 0
  const waiting = new Set<() => void>()
  const urgent = new Set<() => void>()

  const wait = (queue: Set<() => void>) =>
    new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        queue.delete(start)
        const reason = new Error(`${max} operations were in progress for ${timeoutMs} ms`)
        reject(unavailable(reason, 'too many requests are in progress, please try again'))
      }, timeoutMs)
      const start = () => {
        clearTimeout(timer)
        queue.delete(start)
        resolve()
      }
      queue.add(start)
    })

  return async (operation, isUrgent = false) => {
    // A finished operation passes its place on, so that a later call cannot take it first.
    if (inProgress === max) await wait(isUrgent ? urgent : waiting)
    else inProgress++
    try {
      return await operation()
    } finally {
      const [next] = urgent.size > 0 ? urgent : waiting
      if (next === undefined) inProgress--
      else next()
    }
  }
}
