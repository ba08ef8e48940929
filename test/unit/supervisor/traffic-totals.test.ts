// The traffic totals of all workers: each response counts once, also after its worker has exited.
import test from 'ava'
import fc from 'fast-check'
import type { Heartbeat } from '../../../src/core/messages.ts'
import { createTraffic } from '../../../src/listener/traffic.ts'
import { percentileMs } from '../../../src/supervisor/control-ports/history.ts'
import { type FleetEvent, reduce } from '../../../src/supervisor/fleet/events.ts'
import { emptyFleet, totalsOf } from '../../../src/supervisor/fleet/fleet-state.ts'
import { fleetSettings } from '../../support/fleet.ts'
import { emptyHeartbeat } from '../../support/heartbeat.ts'

type Traffic = ReturnType<typeof createTraffic>

const heartbeatOf = (traffic: Traffic, hits: number): Heartbeat => ({
  ...emptyHeartbeat,
  traffic: { http: traffic.totals() },
  routes: { http: traffic.routes() },
  cache: { hits, misses: 0, state: 'none' },
})

const sum = (counts: readonly number[] = []) => counts.reduce((all, count) => all + count, 0)

test('totals: any sequence of responses, heartbeats and exits counts each reported response once', t => {
  const event = fc.record({
    worker: fc.nat(2),
    kind: fc.constantFrom('response', 'rejection', 'heartbeat', 'exit'),
    route: fc.constantFrom('/v1/users', '/v1/users/:user_id', undefined),
    status: fc.constantFrom(200, 201, 404, 503),
    durationMs: fc.double({ min: 0, max: 20_000, noNaN: true }),
  })
  const property = fc.property(fc.array(event, { maxLength: 60 }), events => {
    let fleet = emptyFleet
    let nextId = 1
    const record = (event: FleetEvent) => {
      fleet = reduce(fleet, event, fleetSettings, 0)
    }
    const fresh = () => {
      const id = nextId++
      record({ type: 'forked', id, pid: id, startedMs: 0 })
      const unreported: { route: string; processed: boolean }[] = []
      return { id, traffic: createTraffic(), answered: 0, unreported }
    }
    const workers = [fresh(), fresh(), fresh()]
    const expected: (typeof workers)[number]['unreported'] = []
    for (const { worker: at, kind, route, status, durationMs } of events) {
      const worker = workers[at] ?? fresh()
      if (kind === 'response') {
        worker.traffic.recordResponse(route, status, durationMs)
        worker.unreported.push({ route: route ?? 'none', processed: true })
        worker.answered++
      } else if (kind === 'rejection') {
        worker.traffic.recordResponse(undefined, status, undefined)
        worker.unreported.push({ route: 'none', processed: false })
      } else if (kind === 'heartbeat') {
        const message = heartbeatOf(worker.traffic, worker.answered)
        record({ type: 'message', id: worker.id, message })
        expected.push(...worker.unreported.splice(0))
      } else {
        record({ type: 'exited', id: worker.id, cause: { reason: 'killed' } })
        workers[at] = fresh()
      }
    }
    const { ports, routes, cache } = totalsOf(fleet)
    const processed = expected.filter(one => one.processed)
    t.is(sum(Object.values(ports.http?.responses ?? {})), expected.length)
    t.is(sum(ports.http?.latency), processed.length)
    t.is(cache.hits, processed.length)
    for (const name of ['/v1/users', '/v1/users/:user_id', 'none']) {
      const totals = routes.http?.[name]
      const ofRoute = ({ route }: { route: string }) => route === name
      t.is(sum(Object.values(totals?.responses ?? {})), expected.filter(ofRoute).length)
      t.is(sum(totals?.latency), processed.filter(ofRoute).length)
    }
  })
  fc.assert(property)
})

test('percentile: interpolated within its bucket', t => {
  const traffic = createTraffic()
  for (let at = 0; at < 98; at++) traffic.recordResponse('/v1/users', 200, 4)
  traffic.recordResponse('/v1/users', 200, 80)
  traffic.recordResponse('/v1/users', undefined, 60_000)
  const { latency, responses } = traffic.totals()
  t.like(responses, { '2xx': 99, aborted: 1 })
  const [half, most, all] = [0.5, 0.985, 1].map(share => percentileMs(latency, share))
  t.true(half !== null && half !== undefined && half > 3 && half <= 5)
  t.true(most !== null && most !== undefined && most > 50 && most <= 100)
  t.is(all, 10_000)
  t.is(percentileMs([0, 0], 0.5), null)
})
