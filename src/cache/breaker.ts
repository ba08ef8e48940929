// A circuit breaker: it stops calls to a server after consecutive failures and then allows one attempt per
// pause. The state is an immutable value. The caller passes the time, in milliseconds of a monotonic clock.

/** Number of consecutive failures that opens the breaker. */
export const FAILURE_THRESHOLD = 3
/** Minimum milliseconds between two attempts while the breaker is open. */
export const PAUSE_MS = 1000

/** The initial state: the number of consecutive failures, and the earliest time of the next attempt while the breaker is open. */
export const closedBreaker = { failures: 0, nextAttemptMs: 0 }
export type Breaker = Readonly<typeof closedBreaker>

export const isOpen = ({ failures }: Breaker): boolean => failures >= FAILURE_THRESHOLD

/**
 * Asks for permission to make one attempt.
 * @returns the new state if the attempt is allowed; undefined if it is not
 */
export function attempt(breaker: Breaker, nowMs: number): Breaker | undefined {
  if (!isOpen(breaker)) return breaker
  // The next attempt is scheduled before this one has a result, so an attempt that never ends blocks nothing.
  return nowMs < breaker.nextAttemptMs ? undefined : { ...breaker, nextAttemptMs: nowMs + PAUSE_MS }
}

/** Returns the state after an attempt failed or timed out. */
export function afterFailure({ failures }: Breaker, nowMs: number): Breaker {
  return { failures: failures + 1, nextAttemptMs: nowMs + PAUSE_MS }
}
