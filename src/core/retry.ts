// Repeats an operation that fails with a transient error.
import { setTimeout as delay } from 'node:timers/promises'

interface RetryOptions {
  /** An attempt that fails later than this, in milliseconds from the first one, is the last. `Infinity` sets no limit. */
  readonly timeoutMs: number
  /** Milliseconds to wait after the failed attempt with this number. The first attempt is number 1. */
  readonly pauseMs: (attempt: number) => number
  /** Whether another attempt can succeed after this error of the attempt with this number; by default after every one. */
  readonly isTransient?: (error: unknown, attempt: number) => boolean
  /** Called before each pause. An error that it throws ends the retries. */
  readonly beforePause?: (error: unknown, attempt: number) => void | Promise<void>
}

/**
 * Calls `operation` until it succeeds.
 * @returns the result of the first attempt that succeeds
 * @throws the error of the last attempt, if it is not transient or the time is up
 */
export async function retry<T>(operation: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { timeoutMs, pauseMs, isTransient = () => true, beforePause } = options
  const deadlineMs = performance.now() + timeoutMs
  for (let attempt = 1; ; attempt++) {
    try {
      return await operation()
    } catch (error) {
      if (!isTransient(error, attempt) || performance.now() > deadlineMs) throw error
      await beforePause?.(error, attempt)
      await delay(pauseMs(attempt))
    }
  }
}
