// The watch over the first new worker of a reload, in simulations of workers that fail at given rates.
import test from 'ava'
import fc from 'fast-check'
import type { Heartbeat } from '../../../src/core/messages.ts'
import {
  type Figures,
  failsMoreOften,
  figuresBetween,
  judge,
  type WithoutDatabase,
} from '../../../src/supervisor/fleet/watch.ts'

const none: Figures = { responses: 0, failed: 0 }
const withDatabase: WithoutDatabase = { fresh: undefined, old: [undefined] }
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
  const round = () => failsMoreOften(serve(responses.fresh, rates.fresh), serve(responses.old, rates.old))
  return Array.from({ length: rounds }, round).filter(Boolean).length
}

test('rule: few failures, or no more than the old workers have, are no reason; more failures never excuse', t => {
  fc.assert(
    fc.property(figures, figures, fc.nat(100), (fresh, old, more) => {
      if (fresh.failed <= 5) t.false(failsMoreOften(fresh, old))
      if (fresh.failed * old.responses <= old.failed * fresh.responses) t.false(failsMoreOften(fresh, old))
      const worse = { responses: fresh.responses + more, failed: fresh.failed + more }
      const rate = Math.min(1, (3 * (old.failed + 3)) / (old.responses + 3))
      if (rate < 1 && failsMoreOften(fresh, old)) t.true(failsMoreOften(worse, old))
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

test('judge: waits until the watch is over, then goes on; gives up with the figures at once', t => {
  const good = new Map([['http /v1/users', { responses: 500, failed: 2 }]])
  const old = new Map([['http /v1/users', { responses: 900, failed: 3 }]])
  t.deepEqual(judge(good, old, withDatabase, false), { do: 'wait' })
  t.deepEqual(judge(good, old, withDatabase, true), { do: 'go on' })
  // A node without requests has no figures.
  t.deepEqual(judge(new Map(), new Map(), withDatabase, true), { do: 'go on' })
  const bad = new Map([...good, ['http /v1/groups', { responses: 40, failed: 12 }]])
  t.deepEqual(
    judge(bad, new Map([...old, ['http /v1/groups', { responses: 80, failed: 0 }]]), withDatabase, true),
    {
      do: 'give up',
      reason:
        'the first new worker answered 5xx, or nothing, to 12 of 40 requests, the old ones to 0 of 80 (http /v1/groups)',
    },
  )
})

test('judge: a new worker that alone has lost the database, or does not have it at the end, is given up', t => {
  const judged = (fresh: number, old: (number | undefined)[], isOver: boolean) =>
    judge(new Map(), new Map(), { fresh, old }, isOver)
  const givenUp = { do: 'give up', reason: 'the first new worker has lost the database' } as const
  t.deepEqual(judged(1000, [undefined, 1000], false), givenUp)
  t.deepEqual(judged(999, [undefined], false), { do: 'wait' }, 'one check can be late')
  t.deepEqual(judged(60_000, [5, 60_000], false), { do: 'wait' }, 'an outage meets all workers')
  t.deepEqual(judged(1, [1], true), givenUp)
})

test('judge: one route of many that fails is noticed, and so is a route that the old workers do not know', t => {
  const fine = { responses: 100_000, failed: 0 }
  const one = new Map([
    ['http /v1/users', fine],
    ['http /v1/groups', { responses: 100, failed: 20 }],
  ])
  const old = new Map([
    ['http /v1/users', fine],
    ['http /v1/groups', { responses: 100, failed: 0 }],
  ])
  t.is(judge(one, old, withDatabase, false).do, 'give up')
  const added = new Map([['http /v2/users', { responses: 100, failed: 100 }]])
  t.is(judge(added, new Map([['http /v1/users', fine]]), withDatabase, false).do, 'give up')
  // Without requests to the old workers, there is nothing to compare with.
  t.is(judge(added, new Map([['http /v1/users', none]]), withDatabase, true).do, 'go on')
})

test('figures: the responses between two heartbeats and those that are missing, by port and route', t => {
  const heartbeat = (count: number, failed: number, unanswered?: Record<string, number>): Heartbeat => ({
    type: 'heartbeat',
    appliedRevision: 1,
    ports: { http: { state: 'serving', connections: 0, inFlight: 0, unanswered } },
    traffic: {},
    routes: {
      http: {
        '/v1/users': { responses: { '2xx': count, '5xx': failed, aborted: 1 }, latency: [], latencySumMs: 0 },
      },
    },
    lagMs: 0,
    lagP99Ms: 0,
    cache: { hits: 0, misses: 0, state: 'none' },
    pool: { used: 0, free: 0, waiting: 0, max: 0 },
    rssBytes: 0,
  })
  t.deepEqual(
    [...figuresBetween(heartbeat(10, 1), heartbeat(40, 3))],
    [['http /v1/users', { responses: 32, failed: 2 }]],
  )
  t.deepEqual(
    [...figuresBetween(undefined, heartbeat(4, 3))],
    [['http /v1/users', { responses: 8, failed: 3 }]],
  )
  // Those of the first heartbeat have been answered, or are among those of the second.
  t.deepEqual(
    [...figuresBetween(heartbeat(10, 1, { '/v1/users': 9 }), heartbeat(40, 3, { '/v1/users': 4, none: 1 }))],
    [
      ['http /v1/users', { responses: 36, failed: 6 }],
      ['http none', { responses: 1, failed: 1 }],
    ],
  )
  t.deepEqual([...figuresBetween(undefined, undefined)], [])
})
