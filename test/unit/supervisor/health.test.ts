// Which workers serve requests, and the response to a health check.
import test from 'ava'
import { healthOf, isServing } from '../../../src/supervisor/control/health.ts'

test('health: a worker serves until it has missed three heartbeats', t => {
  t.true(isServing({ state: 'ready', missedHeartbeats: 0 }, false))
  t.true(isServing({ state: 'ready', missedHeartbeats: 3 }, false))
  t.false(isServing({ state: 'ready', missedHeartbeats: 3.1 }, false))
  t.false(isServing({ state: 'ready', missedHeartbeats: Infinity }, false))
})

test('health: a retiring worker serves only while the service stops, and only if it does not hang', t => {
  t.false(isServing({ state: 'retiring', missedHeartbeats: 0 }, false))
  t.true(isServing({ state: 'retiring', missedHeartbeats: 0 }, true))
  t.false(isServing({ state: 'retiring', missedHeartbeats: 4 }, true))
  t.false(isServing({ state: 'booting', missedHeartbeats: 0 }, false))
})

test('health: the first result that applies', t => {
  const codeOf = (state: 'serving' | 'draining', ...downMs: (number | undefined)[]) =>
    healthOf('http', { state, databaseDownMs: downMs }, 10_000).code
  t.is(codeOf('draining'), 'no_worker')
  t.is(codeOf('draining', 10_001), 'no_database')
  t.is(codeOf('draining', 10_000), 'maintenance')
  t.is(codeOf('serving', 10_001, undefined), 'serving')
})
