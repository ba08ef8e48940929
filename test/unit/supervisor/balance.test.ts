// The fair share of each worker: which have too many connections, and that these end up spread over all workers.
import test from 'ava'
import fc from 'fast-check'
import type { Heartbeat } from '../../../src/core/messages.ts'
import { balance } from '../../../src/supervisor/cluster/balance.ts'

function workersWith(counts: readonly number[]) {
  return counts.map((active, id) => {
    const heartbeat: Heartbeat = {
      type: 'heartbeat',
      appliedRevision: 1,
      ports: { http: { state: 'serving', connections: active, active, inFlight: 0 } },
      traffic: {},
      lagMs: 0,
      lagP99Ms: 0,
      cache: { hits: 0, misses: 0, state: 'none' },
      pool: { used: 0, free: 0, waiting: 0, max: 0 },
      rssBytes: 0,
    }
    return { id, heartbeat }
  })
}

/** Returns the limits by worker; undefined for those without. */
const limitsOf = (counts: readonly number[]) => {
  const limits = balance(workersWith(counts))
  return counts.map((_, id) => limits.get(id)?.http)
}

test('balance: a worker with too many keeps half of the excess', t => {
  t.deepEqual(limitsOf([26, 6]), [21, undefined])
  t.deepEqual(limitsOf([0, 32]), [undefined, 24])
  t.deepEqual(limitsOf([2, 0]), [1, undefined])
  t.deepEqual(limitsOf([40, 8, 0, 0]), [26, undefined, undefined, undefined])
  t.deepEqual(limitsOf([40, 22, 20, 0]), [30, 21, undefined, undefined], 'only those below the mean accept')
})

test('balance: small differences, single workers and workers without a heartbeat get no limit', t => {
  for (const counts of [[], [32], [0, 0], [1, 0], [2, 1], [17, 15], [105, 100, 95]])
    t.deepEqual(
      limitsOf(counts),
      counts.map(() => undefined),
    )
  t.is(balance([{ id: 1, heartbeat: undefined }]).size, 0)
})

test('balance: ports are independent', t => {
  const [first, second] = [workersWith([10, 0]), workersWith([0, 20])]
  const workers = first.map(({ id, heartbeat }, at) => ({
    id,
    heartbeat: {
      ...heartbeat,
      ports: {
        ...heartbeat.ports,
        https: second[at]?.heartbeat.ports.http ?? { state: 'serving' as const, connections: 0, inFlight: 0 },
      },
    },
  }))
  t.deepEqual(
    [...balance(workers)],
    [
      [0, { http: 7 }],
      [1, { https: 15 }],
    ],
  )
})

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
const counts = fc.array(fc.nat(2000), { minLength: 2, maxLength: 8 })

test('balance: there is always a worker without a limit, and a limit is never under the mean', t => {
  fc.assert(
    fc.property(counts, counts => {
      const limits = limitsOf(counts)
      const mean = sum(counts) / counts.length
      t.true(limits.includes(undefined))
      for (const limit of limits) t.true(limit === undefined || limit >= Math.floor(mean))
    }),
  )
})

test('balance: wherever the clients come back, the connections are spread within 10 rounds', t => {
  const targets = fc.array(fc.nat(7), { minLength: 10, maxLength: 10 })
  fc.assert(
    fc.property(counts, targets, (counts, targets) => {
      for (const target of targets) {
        const limits = limitsOf(counts)
        const kept = counts.map((count, at) => limits[at] ?? count)
        // The worst case: all of them connect to one of the workers that accept.
        const accepting = [...limits.keys()].filter(at => limits[at] === undefined)
        const chosen = accepting[target % accepting.length] ?? 0
        const moved = sum(counts) - sum(kept)
        counts = kept.map((count, at) => (at === chosen ? count + moved : count))
      }
      t.true(
        limitsOf(counts).every(limit => limit === undefined),
        `${counts}`,
      )
    }),
    { numRuns: 1000 },
  )
})
