// The circuit breaker, tested with random sequences of attempts, successes and failures.
import test from 'ava'
import fc from 'fast-check'
import {
  afterFailure,
  attempt,
  type Breaker,
  closedBreaker,
  FAILURE_THRESHOLD,
  isOpen,
  PAUSE_MS,
} from '../../../src/cache/breaker.ts'

/** Events, each with its time since the previous event. */
const events = fc.array(
  fc.record({
    kind: fc.constantFrom('attempt', 'attempt', 'attempt', 'succeed', 'fail', 'fail'),
    afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 1500 })),
  }),
  { maxLength: 60 },
)

test('breaker: opens at the failure threshold, allows one attempt per pause, closes on success', t => {
  const property = fc.property(events, history => {
    let breaker: Breaker = closedBreaker
    let nowMs = 0
    let failuresInRow = 0
    // The time of the last failure or attempt. The next attempt is allowed one pause later.
    let pausedSinceMs = 0
    for (const { kind, afterMs } of history) {
      nowMs += afterMs
      if (kind === 'attempt') {
        const allowed = attempt(breaker, nowMs)
        const due = failuresInRow < FAILURE_THRESHOLD || nowMs - pausedSinceMs >= PAUSE_MS
        t.is(allowed !== undefined, due)
        if (allowed !== undefined) breaker = allowed
        if (due) pausedSinceMs = nowMs
      } else if (kind === 'fail') {
        breaker = afterFailure(breaker, nowMs)
        failuresInRow++
        pausedSinceMs = nowMs
      } else {
        breaker = closedBreaker
        failuresInRow = 0
      }
      t.is(isOpen(breaker), failuresInRow >= FAILURE_THRESHOLD)
    }
  })
  fc.assert(property, { numRuns: 2000 })
})

test('breaker: allows an attempt one pause after any sequence of attempts and failures', t => {
  const property = fc.property(events, history => {
    let breaker: Breaker = closedBreaker
    let nowMs = 0
    for (const { kind, afterMs } of history) {
      nowMs += afterMs
      if (kind === 'attempt') breaker = attempt(breaker, nowMs) ?? breaker
      else if (kind === 'fail') breaker = afterFailure(breaker, nowMs)
    }
    t.not(attempt(breaker, nowMs + PAUSE_MS), undefined)
  })
  fc.assert(property, { numRuns: 2000 })
})
