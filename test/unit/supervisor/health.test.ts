// Which workers serve requests, and the response to a health check.
import test from 'ava'
import { databaseDownMs, healthOf, isServing } from '../../../src/supervisor/control-ports/health.ts'
import { viewOf } from '../../../src/supervisor/fleet/worker-view.ts'
import { emptyHeartbeat } from '../../support/heartbeat.ts'

const worker = {
  id: 1,
  pid: 1,
  startedMs: 0,
  sinceMs: 0,
  hasSocket: true,
  toBeReplaced: false,
  killed: false,
  exitCause: undefined,
  state: 'ready',
  lastHeardMs: 100,
  heartbeat: emptyHeartbeat,
} as const

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
  // It has not sent a message yet.
  t.false(isServing(viewOf({ ...worker, state: 'booting', lastHeardMs: undefined }, 1000, 400), true))
})

test('health: an outage goes on while the worker that has reported it is silent', t => {
  t.is(databaseDownMs(viewOf(worker, 1000, 400)), undefined)
  const heartbeat = { ...emptyHeartbeat, databaseDownMs: 500 }
  t.is(databaseDownMs(viewOf({ ...worker, heartbeat }, 1000, 400)), 800)
})

test('health: no_worker, no_database, maintenance and serving, in this order of precedence', t => {
  const health = (state: 'serving' | 'draining' | 'drained', ...downMs: (number | undefined)[]) =>
    healthOf('http', state, downMs, 10_000)
  t.like(health('draining'), { code: 'no_worker', status: 503 })
  t.like(health('draining', 10_001, 20_000), { code: 'no_database', status: 503 })
  t.like(health('draining', 10_001, undefined), { code: 'maintenance', status: 404 })
  t.like(health('draining', 10_000), { code: 'maintenance', status: 404 })
  t.like(health('drained', 10_000), { code: 'maintenance', status: 404 })
  t.like(health('serving', 10_000, 20_000), { code: 'serving', status: 200 })
  t.like(health('serving', 10_001, undefined), { code: 'serving', status: 200 })
})
