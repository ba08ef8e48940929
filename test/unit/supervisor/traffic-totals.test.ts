// The traffic totals of the cluster: each response counts once, also after its worker has exited.
import test from 'ava'
import fc from 'fast-check'
import type { Heartbeat } from '../../../src/core/messages.ts'
import { createTraffic } from '../../../src/listener/traffic.ts'
import { percentileMs } from '../../../src/supervisor/control/history.ts'
import { createClusterTraffic } from '../../../src/supervisor/control/traffic-totals.ts'

type Traffic = ReturnType<typeof createTraffic>

const heartbeatOf = (traffic: Traffic, hits: number): Heartbeat => ({
  type: 'heartbeat',
  ports: { http: { state: 'serving', connections: 0, inFlight: 0 } },
  traffic: { http: traffic.totals() },
  lagMs: 0,
  lagP99Ms: 0,
  cache: { hits, misses: 0, state: 'none' },
  pool: { used: 0, free: 0, waiting: 0, max: 10 },
  rssBytes: 0,
  appliedRevision: 0,
})

test('totals: any sequence of responses, heartbeats and exits counts each reported response once', t => {
  const event = fc.record({
    worker: fc.nat(2),
    kind: fc.constantFrom('response', 'heartbeat', 'exit'),
    status: fc.constantFrom(200, 201, 404, 503),
    durationMs: fc.double({ min: 0, max: 20_000, noNaN: true }),
  })
  const property = fc.property(fc.array(event, { maxLength: 60 }), events => {
    const cluster = createClusterTraffic(['http'])
    const fresh = () => ({
      traffic: createTraffic(),
      answered: 0,
      reported: 0,
      last: undefined as Heartbeat | undefined,
    })
    const workers = [fresh(), fresh(), fresh()]
    let expected = 0
    for (const { worker: at, kind, status, durationMs } of events) {
      const worker = workers[at] ?? fresh()
      if (kind === 'response') {
        worker.traffic.recordResponse(status, durationMs)
        worker.answered++
      } else if (kind === 'heartbeat') {
        const heartbeat = heartbeatOf(worker.traffic, worker.answered)
        cluster.heartbeat(heartbeat, worker.last)
        worker.last = heartbeat
        expected += worker.answered - worker.reported
        worker.reported = worker.answered
      } else workers[at] = fresh()
    }
    const { ports, cache } = cluster.totals()
    const sum = (counts: readonly number[] = []) => counts.reduce((all, count) => all + count, 0)
    t.is(sum(Object.values(ports.http?.responses ?? {})), expected)
    t.is(sum(ports.http?.latency), expected)
    t.is(cache.hits, expected)
  })
  fc.assert(property)
})

test('percentile: interpolated within its bucket', t => {
  const traffic = createTraffic()
  for (let at = 0; at < 98; at++) traffic.recordResponse(200, 4)
  traffic.recordResponse(200, 80)
  traffic.recordResponse(undefined, 60_000)
  const { latency, responses } = traffic.totals()
  t.like(responses, { '2xx': 99, aborted: 1 })
  const [half, most, all] = [0.5, 0.985, 1].map(share => percentileMs(latency, share))
  t.true(half !== null && half !== undefined && half > 3 && half <= 5)
  t.true(most !== null && most !== undefined && most > 50 && most <= 100)
  t.is(all, 10_000)
  t.is(percentileMs([0, 0], 0.5), null)
})
