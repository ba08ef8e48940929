// The breaker as a state machine: whatever happens when, it keeps what it promises.
import test from 'ava'
import fc from 'fast-check'
import { afterFailure, attempt, type Breaker, closedBreaker, isOpen } from '../../../src/cache/breaker.ts'

const settings = { failures: 3, pauseMs: 1000 }

/** What happens next, and how long after what happened before. */
const events = fc.array(
  fc.record({
    kind: fc.constantFrom('ask', 'ask', 'ask', 'succeed', 'fail', 'fail'),
    afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 1500 })),
  }),
  { maxLength: 60 },
)

test('it opens after so many failures in a row, lets one attempt a pause through, and closes at a success', t => {
  const property = fc.property(events, history => {
    let breaker: Breaker = closedBreaker
    let nowMs = 0
    let inRow = 0
    // Since the failure that opened it, or the last attempt, or the last failure: the next attempt is a pause later.
    let quietSinceMs = 0
    for (const { kind, afterMs } of history) {
      nowMs += afterMs
      if (kind === 'ask') {
        const allowed = attempt(breaker, settings, nowMs)
        const due = inRow < settings.failures || nowMs - quietSinceMs >= settings.pauseMs
        t.is(allowed !== undefined, due)
        if (allowed !== undefined) breaker = allowed
        if (due) quietSinceMs = nowMs
      } else if (kind === 'fail') {
        breaker = afterFailure(breaker, settings, nowMs)
        inRow++
        quietSinceMs = nowMs
      } else {
        breaker = closedBreaker
        inRow = 0
      }
      t.is(isOpen(breaker, settings), inRow >= settings.failures)
    }
  })
  fc.assert(property, { numRuns: 2000 })
})

test('however it was opened, it lets somebody try after a pause', t => {
  const property = fc.property(events, history => {
    let breaker: Breaker = closedBreaker
    let nowMs = 0
    for (const { kind, afterMs } of history) {
      nowMs += afterMs
      if (kind === 'ask') breaker = attempt(breaker, settings, nowMs) ?? breaker
      else if (kind === 'fail') breaker = afterFailure(breaker, settings, nowMs)
    }
    t.not(attempt(breaker, settings, nowMs + settings.pauseMs), undefined)
  })
  fc.assert(property, { numRuns: 2000 })
})
