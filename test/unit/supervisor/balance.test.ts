// The fair share of each worker: which have too many connections, and that these end up spread over all workers.
import test from 'ava'
import fc from 'fast-check'
import { balance } from '../../../src/supervisor/fleet/balance.ts'
import { emptyHeartbeat } from '../../support/heartbeat.ts'

function workersWith(counts: readonly number[]) {
  return counts.map((active, id) => {
    const http = {
      state: 'serving' as const,
      connections: active,
      active,
      inFlight: 0,
      unanswered: {},
      quietMs: 0,
    }
    const heartbeat = { ...emptyHeartbeat, ports: { http } }
    return { id, state: 'ready' as const, missedHeartbeats: 0, heartbeat }
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
  t.is(balance([{ id: 1, state: 'ready', missedHeartbeats: 0, heartbeat: undefined }]).size, 0)
})

test('balance: workers that retire or have missed a heartbeat have no part in it', t => {
  const [one, two, three] = workersWith([40, 10, 0])
  if (one === undefined || two === undefined || three === undefined) throw new Error('no workers')
  for (const left of [
    { ...three, state: 'retiring' as const },
    { ...three, missedHeartbeats: 1.6 },
  ]) {
    t.deepEqual([...balance([one, two, left])], [[0, { http: 32 }]], 'the mean is that of the two others')
    t.is(balance([one, left]).size, 0, 'nothing is left to it')
  }
  t.is(balance([one, { ...three, missedHeartbeats: 1.2 }]).size, 1, 'a heartbeat that is a little late')
})

test('balance: ports are independent', t => {
  const [first, second] = [workersWith([10, 0]), workersWith([0, 20])]
  const workers = first.map(({ heartbeat, ...worker }, at) => {
    const https = second[at]?.heartbeat.ports.http
    return { ...worker, heartbeat: { ...heartbeat, ports: { ...heartbeat.ports, ...(https && { https }) } } }
  })
  t.deepEqual(
    [...balance(workers)],
    [
      [0, { http: 7 }],
      [1, { https: 15 }],
    ],
  )
})

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
const counts = fc.constantFrom(20, 2000).chain(most => fc.array(fc.nat(most), { minLength: 2, maxLength: 8 }))

test('balance: there is always a worker without a limit, and a limit is never under the mean', t => {
  fc.assert(
    fc.property(counts, counts => {
      const limits = limitsOf(counts)
      const mean = sum(counts) / counts.length
      t.true(limits.includes(undefined))
      for (const limit of limits) t.true(limit === undefined || limit >= Math.ceil(mean))
    }),
  )
})

test('balance: whichever workers hang, connections are left to one that does not', t => {
  const fleet = fc.array(fc.record({ active: fc.nat(2000), hangs: fc.boolean() }), {
    minLength: 1,
    maxLength: 8,
  })
  fc.assert(
    fc.property(fleet, fleet => {
      const workers = workersWith(fleet.map(({ active }) => active)).map((worker, at) => ({
        ...worker,
        missedHeartbeats: fleet[at]?.hangs === true ? 2 : 0.5,
      }))
      const limits = balance(workers)
      const accepting = workers.filter(({ id }) => !limits.has(id) && fleet[id]?.hangs === false)
      t.is(
        accepting.length > 0,
        fleet.some(({ hangs }) => !hangs),
      )
    }),
    { numRuns: 1000 },
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
