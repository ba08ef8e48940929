// Counts the responses of a load that runs while faults are injected. Only documented failures are allowed.
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import type { Answer } from '../support/http.ts'

interface Tally {
  acknowledged: number
  /** JSON responses with the code `unavailable` and Retry-After: 503 of the service, 502 to 504 of a proxy. */
  unavailable: number
  /** Connections that ended before the first byte of a response. */
  lost: number
  /** Refused connections. */
  refused: number
  slowestMs: number
  /** End of the last request that was not acknowledged, as `performance.now()`. */
  lastFailureMs: number
}

const RECONNECT_DELAY_MS = 20

/** @throws AssertionError if `answer` is not documented for a service or a node that is away */
function assertUnavailable(answer: Answer, statuses: readonly number[]): void {
  assert.ok(statuses.includes(answer.status), `${answer.status} ${answer.text}`)
  assert.equal(answer.body.meta.code, 'unavailable', answer.text)
  assert.match(answer.headers['retry-after'] ?? '', /^\d+$/)
}

export type Attempts = ReturnType<typeof createAttempts>

/**
 * @param maxResponseMs every request must complete within this time
 * @param unavailable the statuses of a service that is away; behind a proxy also 502 and 504
 */
export function createAttempts(maxResponseMs: number, unavailable: readonly number[] = [503]) {
  const tally: Tally = {
    acknowledged: 0,
    unavailable: 0,
    lost: 0,
    refused: 0,
    slowestMs: 0,
    lastFailureMs: 0,
  }
  /** Seconds since the start of the process in which a request failed. */
  const secondsWithFailures = new Set<number>()
  const waiters: { isReached(): boolean; resolve(): void }[] = []
  let ended = false

  return {
    tally,
    secondsWithFailures,

    /**
     * Sends a request and counts its response.
     * @param expected further statuses that are returned and count as acknowledged
     * @returns the response of an acknowledged request, otherwise undefined
     */
    async attempt(
      send: () => Promise<Answer>,
      expected: readonly number[] = [],
    ): Promise<Answer | undefined> {
      const startedMs = performance.now()
      const answer = await send().catch(async (error: Error) => {
        const refused = error.message.includes('ECONNREFUSED')
        // Any other error, such as a truncated response, is a violation.
        assert.match(error.message, refused ? /./ : /socket hang up|ECONNRESET|EPIPE/)
        tally[refused ? 'refused' : 'lost']++
        // As a client that connects again.
        if (refused) await delay(RECONNECT_DELAY_MS)
        return undefined
      })
      const endedMs = performance.now()
      tally.slowestMs = Math.max(tally.slowestMs, endedMs - startedMs)
      assert.ok(endedMs - startedMs < maxResponseMs, `a response took ${Math.round(endedMs - startedMs)} ms`)
      const isAcknowledged = answer?.status === 200 || expected.includes(answer?.status ?? 0)
      if (isAcknowledged) tally.acknowledged++
      else {
        tally.lastFailureMs = endedMs
        secondsWithFailures.add(Math.floor(endedMs / 1000))
        if (answer !== undefined) {
          assertUnavailable(answer, unavailable)
          tally.unavailable++
        }
      }
      for (const waiter of waiters) if (waiter.isReached()) waiter.resolve()
      return isAcknowledged ? answer : undefined
    },

    /** Resolves after `more` further requests were acknowledged or answered as unavailable, or after `end`. */
    until(kind: 'acknowledged' | 'unavailable', more: number): Promise<void> {
      const goal = tally[kind] + more
      return new Promise(resolve => {
        if (ended) resolve()
        else waiters.push({ isReached: () => tally[kind] >= goal, resolve })
      })
    },

    /** Resolves everything that waits. */
    end(): void {
      ended = true
      for (const waiter of waiters) waiter.resolve()
    },
  }
}
