// The watch over the first new worker of a reload, in simulations of workers that fail at given rates.
import test from 'ava'
import fc from 'fast-check'
import type { Heartbeat } from '../../../src/core/messages.ts'
import { type FleetEvent, reduce } from '../../../src/supervisor/fleet/events.ts'
import {
  type Figures,
  failsMoreOften,
  faultOf,
  figuresBetween,
} from '../../../src/supervisor/fleet/figures.ts'
import { emptyFleet, watchOf } from '../../../src/supervisor/fleet/fleet-state.ts'
import { describeWatch } from '../../../src/supervisor/fleet/watch.ts'
import { fleetSettings } from '../../support/fleet.ts'
import { emptyHeartbeat } from '../../support/heartbeat.ts'

const none: Figures = { responses: 0, failed: 0 }
const figures = fc
  .tuple(fc.nat(10_000), fc.nat(10_000))
  .map(([failed, more]): Figures => ({ responses: failed + more, failed }))

/** Random numbers of 0 to 1 from a seed (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Counts the reloads of `rounds` that give up. @param rates the part of the requests that fail */
function countFailures(
  rounds: number,
  responses: { fresh: number; old: number },
  rates: typeof responses,
): number {
  const random = randomNumbers(1)
  const serve = (count: number, rate: number): Figures => ({
    responses: count,
    failed: Array.from({ length: count }, random).filter(one => one < rate).length,
  })
  const round = () => failsMoreOften(serve(responses.fresh, rates.fresh), serve(responses.old, rates.old), 2)
  return Array.from({ length: rounds }, round).filter(Boolean).length
}

test('rule: few failures, or no more than the old workers have, are no reason; more failures never excuse', t => {
  fc.assert(
    fc.property(figures, figures, fc.nat(100), (fresh, old, more) => {
      const fails = (one: Figures) => failsMoreOften(one, old, 2)
      if (fresh.failed <= 5 || fresh.failed <= old.failed) t.false(fails(fresh))
      if (fresh.failed * old.responses <= old.failed * fresh.responses) t.false(fails(fresh))
      const worse = { responses: fresh.responses + more, failed: fresh.failed + more }
      const rate = Math.min(1, (3 * (old.failed + 3)) / (old.responses + 3))
      if (rate < 1 && fails(fresh)) t.true(fails(worse))
    }),
  )
  t.pass()
})

test('rule: workers that fail equally often pass, at any rate and amount', t => {
  for (const rate of [0, 0.001, 0.01, 0.05, 0.2, 0.5, 1])
    for (const [fresh, old] of [
      [10, 10],
      [50, 20],
      [200, 400],
      [400, 100],
    ] as const)
      t.is(
        countFailures(1000, { fresh, old }, { fresh: rate, old: rate }),
        0,
        `${rate} of ${fresh} and ${old}`,
      )
})

test('rule: a version that fails is noticed: 5 % after 400 responses, 50 % after 32, 100 % after 12', t => {
  for (const [rate, responses] of [
    [0.05, 400],
    [0.5, 32],
    [1, 12],
  ] as const) {
    const noticed = countFailures(1000, { fresh: responses, old: 2 * responses }, { fresh: rate, old: 0 })
    t.true(noticed > 950, `${noticed} of 1000 at ${rate}`)
  }
})

test('fault: one route of many that fails is noticed with its figures, and so is a new route', t => {
  const fine = { responses: 100_000, failed: 0 }
  const worker = (groups: Figures) =>
    new Map([
      ['http /v1/users', fine],
      ['http /v1/groups', groups],
    ])
  const old = { count: 2, figures: worker({ responses: 80, failed: 0 }) }
  t.is(
    faultOf(worker({ responses: 40, failed: 12 }), old),
    'the first new worker answered 5xx, or nothing, to 12 of 40 requests, the old ones to 0 of 80 (http /v1/groups)',
  )
  t.is(faultOf(worker({ responses: 40, failed: 2 }), old), undefined)
  const added = new Map([['http /v2/users', { responses: 100, failed: 100 }]])
  t.regex(faultOf(added, old) ?? '', /all requests/)
  // Without requests to the old workers, there is nothing to compare with, and a node without requests has no figures.
  t.is(faultOf(added, { count: 2, figures: new Map([['http /v1/users', none]]) }), undefined)
  t.is(faultOf(new Map(), { count: 2, figures: new Map() }), undefined)
})

/** A heartbeat of a worker with one port and one route. */
const heartbeat = (
  responses: Record<string, number>,
  more: { unanswered?: Record<string, number>; databaseDownMs?: number } = {},
): Heartbeat => ({
  ...emptyHeartbeat,
  ports: {
    http: {
      state: 'serving',
      connections: 0,
      active: 0,
      inFlight: 0,
      unanswered: more.unanswered ?? {},
      quietMs: 0,
    },
  },
  routes: { http: { '/v1/users': { responses, latency: [], latencySumMs: 0 } } },
  ...(more.databaseDownMs !== undefined && { databaseDownMs: more.databaseDownMs }),
})

const settings = { ...fleetSettings, workers: 2, silentMs: Infinity }

/** A fleet with the workers 1 and 2 in which a reload has begun, and its first new worker, 3, listens. */
function openWatch(watchMs = 1e9) {
  let fleet = emptyFleet
  const record = (event: FleetEvent, nowMs = 0) => {
    fleet = reduce(fleet, event, settings, nowMs)
  }
  const listen = (id: number) => {
    record({ type: 'forked', id, pid: id, startedMs: 0 })
    record({ type: 'message', id, message: { type: 'listening' } })
  }
  for (const id of [1, 2]) listen(id)
  record({ type: 'reload', watchMs })
  listen(3)
  return {
    beat: (id: number, message: Heartbeat, nowMs = 0) => record({ type: 'message', id, message }, nowMs),
    listen,
    outcome: () => (watchOf(fleet) === undefined ? fleet.reload.state : 'watching'),
    shown: (nowMs: number) => describeWatch(fleet, nowMs),
    reload: () => record({ type: 'reload', watchMs }),
  }
}

test('watch: the status shows the figures of the new worker and of the old ones', t => {
  const { beat, shown } = openWatch(10_000)
  beat(1, heartbeat({ '2xx': 3 }))
  beat(2, heartbeat({ '2xx': 4, '5xx': 1 }))
  beat(3, heartbeat({ '5xx': 2 }))
  t.deepEqual(shown(4000), {
    pid: 3,
    left_ms: 6000,
    fresh: { responses: 2, failed: 2 },
    old: { responses: 8, failed: 1 },
  })
})

test('watch: gives up when each old worker has sent a heartbeat without the fault of the new one', t => {
  const { beat, listen, outcome } = openWatch()
  beat(1, heartbeat({ '2xx': 50 }))
  beat(3, heartbeat({ '5xx': 20 }))
  beat(1, heartbeat({ '2xx': 100 }))
  beat(3, heartbeat({ '5xx': 40 }))
  beat(2, heartbeat({ '2xx': 100 }))
  t.is(outcome(), 'watching')
  // The replacement of an old worker that has exited.
  listen(4)
  beat(3, heartbeat({ '5xx': 60 }))
  t.is(outcome(), 'failed')
})

test('watch: a fault that has ended is no evidence for a later one', t => {
  const { beat, outcome } = openWatch()
  beat(1, heartbeat({ '2xx': 50 }))
  beat(3, heartbeat({ '5xx': 20 }))
  beat(3, heartbeat({ '5xx': 20, '2xx': 2000 }))
  for (const id of [1, 2]) beat(id, heartbeat({ '2xx': 100 }))
  beat(3, heartbeat({ '5xx': 120, '2xx': 2000 }))
  t.is(outcome(), 'watching')
  for (const id of [1, 2]) beat(id, heartbeat({ '2xx': 101 }))
  beat(3, heartbeat({ '5xx': 120, '2xx': 2000 }))
  t.is(outcome(), 'failed')
})

test('watch: the fault that ended a watch is no evidence in the next one', t => {
  const { beat, listen, outcome, reload } = openWatch()
  beat(1, heartbeat({ '2xx': 50 }))
  beat(3, heartbeat({ '5xx': 20 }))
  for (const id of [1, 2]) beat(id, heartbeat({ '2xx': 100 }))
  beat(3, heartbeat({ '5xx': 60 }))
  t.is(outcome(), 'failed')
  reload()
  listen(4)
  beat(1, heartbeat({ '2xx': 150 }))
  beat(4, heartbeat({ '5xx': 60 }))
  t.is(outcome(), 'watching')
})

test('watch: waits neither for an old worker that hangs, nor for the new one that uses too much memory', t => {
  const { beat, outcome } = openWatch()
  const stableMs = 40_000
  for (const id of [1, 2]) beat(id, heartbeat({ '2xx': 50 }))
  beat(3, { ...heartbeat({ '5xx': 20 }), rssBytes: 1001 }, stableMs)
  beat(1, heartbeat({ '2xx': 100 }), stableMs)
  beat(3, heartbeat({ '5xx': 40 }), stableMs)
  t.is(outcome(), 'failed')
})

test('watch: at its end, a new worker passes unless it is without the database', t => {
  for (const [databaseDownMs, expected] of [
    [undefined, 'running'],
    [1, 'failed'],
  ] as const) {
    const { beat, outcome } = openWatch(10_000)
    beat(1, heartbeat({}), 10_000)
    beat(3, heartbeat({}), 9999)
    t.is(outcome(), 'watching')
    beat(3, heartbeat({}, databaseDownMs === undefined ? {} : { databaseDownMs }), 10_000)
    t.is(outcome(), expected)
  }
})

/**
 * Simulates 16 seconds of a watch. Requests take 10 ms, and some workers have one stall.
 * @param stallsId whether a worker stalls
 */
function simulate(
  plan: {
    readonly offsets: readonly number[]
    readonly connections: readonly number[]
    /** For how long the new worker has had its connections when the stall starts. */
    readonly warmMs: number
    readonly startMs: number
    readonly lengthMs: number
    /** What a stall does to requests: they fail at once, or they get this outcome at its end. */
    readonly outcome: '5xx at once' | '5xx' | '2xx'
  },
  stallsId: (id: number) => boolean,
) {
  const watch = openWatch()
  const counts = plan.connections.map(() => ({ '2xx': 0 }) as Record<string, number>)
  const endMs = plan.startMs + plan.lengthMs
  for (let nowMs = 0; nowMs < 16_000; nowMs += 10)
    for (const [index, responses] of counts.entries()) {
      const id = index + 1
      const isConnected = id < 3 || nowMs >= plan.startMs - plan.warmMs
      const connections = isConnected ? (plan.connections[index] ?? 0) : 0
      const stalls = stallsId(id) && nowMs >= plan.startMs && nowMs < endMs
      const hangs = stalls && plan.outcome !== '5xx at once'
      const endsStall = stallsId(id) && nowMs === endMs
      const outcome = stalls || (endsStall && plan.outcome === '5xx') ? '5xx' : '2xx'
      if (!hangs) responses[outcome] = (responses[outcome] ?? 0) + connections
      const unanswered = hangs && nowMs - plan.startMs >= 3000 ? connections : 0
      if (nowMs % 1000 === plan.offsets[index])
        watch.beat(id, heartbeat({ ...responses }, { unanswered: { '/v1/users': unanswered } }), nowMs)
    }
  return watch
}

const offset = fc.nat(99).map(tenth => tenth * 10)
const plans = fc.record({
  offsets: fc.tuple(offset, offset, offset),
  // The new worker has at most its fair share.
  connections: fc.tuple(
    fc.integer({ min: 16, max: 20 }),
    fc.integer({ min: 16, max: 20 }),
    fc.integer({ min: 12, max: 20 }),
  ),
  warmMs: fc.constantFrom(50, 200, 5000),
  startMs: fc.nat(500).map(tenth => tenth * 10),
  lengthMs: fc.integer({ min: 400, max: 800 }).map(tenth => tenth * 10),
  outcome: fc.constantFrom('2xx', '5xx', '5xx at once'),
})

test('watch: a stall of the database that all workers have alike is no reason to give up', t => {
  fc.assert(
    fc.property(plans, plan => {
      t.is(simulate(plan, () => true).outcome(), 'watching')
    }),
    { numRuns: 1000 },
  )
})

test('watch: a new worker that alone stops answering is given up', t => {
  fc.assert(
    fc.property(plans, plan => {
      t.is(simulate({ ...plan, lengthMs: 60_000 }, id => id === 3).outcome(), 'failed')
    }),
  )
})

test('figures: the responses between two heartbeats and those that are missing, by port and route', t => {
  const sent = (count: number, failed: number, unanswered?: Record<string, number>) =>
    heartbeat({ '2xx': count, '5xx': failed, aborted: 1 }, unanswered && { unanswered })
  t.deepEqual(
    [...figuresBetween(sent(10, 1), sent(40, 3))],
    [['http /v1/users', { responses: 32, failed: 2 }]],
  )
  t.deepEqual([...figuresBetween(undefined, sent(4, 3))], [['http /v1/users', { responses: 8, failed: 3 }]])
  // Those of the first heartbeat have been answered, or are among those of the second.
  t.deepEqual(
    [...figuresBetween(sent(10, 1, { '/v1/users': 9 }), sent(40, 3, { '/v1/users': 4, none: 1 }))],
    [
      ['http /v1/users', { responses: 36, failed: 6 }],
      ['http none', { responses: 1, failed: 1 }],
    ],
  )
  t.deepEqual([...figuresBetween(undefined, undefined)], [])
})
