// When to leave a server alone that does not answer in time. A value that is replaced, never changed; time comes in as an
// argument, in milliseconds of any clock that does not go back.

export interface BreakerSettings {
  /** So many failures in a row open it. */
  readonly failures: number
  /** Open, it lets one attempt through in each of these. */
  readonly pauseMs: number
}

export interface Breaker {
  /** In a row. */
  readonly failures: number
  /** When the next attempt may be made, once there were too many failures. */
  readonly nextMs: number
}

/** Nothing has failed. */
export const closedBreaker: Breaker = { failures: 0, nextMs: 0 }

export const isOpen = (breaker: Breaker, { failures }: BreakerSettings): boolean =>
  breaker.failures >= failures

/**
 * Asks for an attempt.
 * @returns the breaker to go on with if the attempt may be made; undefined if not
 */
export function attempt(breaker: Breaker, settings: BreakerSettings, nowMs: number): Breaker | undefined {
  if (!isOpen(breaker, settings)) return breaker
  // Whatever becomes of this attempt, the next one has to wait: one that never ends blocks nothing.
  return nowMs < breaker.nextMs ? undefined : { ...breaker, nextMs: nowMs + settings.pauseMs }
}

/** An attempt has failed, or took too long. */
export function afterFailure(breaker: Breaker, settings: BreakerSettings, nowMs: number): Breaker {
  return { failures: breaker.failures + 1, nextMs: nowMs + settings.pauseMs }
}
