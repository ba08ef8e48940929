// What the status and the metrics tell of the workers, from their last heartbeats.
import test from 'ava'
import type { Heartbeat, PortReport } from '../../../src/core/messages.ts'
import { noTraffic } from '../../../src/core/traffic-totals.ts'
import { createCheckers } from '../../../src/supervisor/control-ports/checkers.ts'
import { createMetrics } from '../../../src/supervisor/control-ports/metrics.ts'
import { createStatusReader } from '../../../src/supervisor/control-ports/status.ts'
import { viewOf } from '../../../src/supervisor/fleet/worker-view.ts'
import { currentMoment, serve } from '../../../src/supervisor/port-states.ts'
import { emptyHeartbeat } from '../../support/heartbeat.ts'

const expiry = '9999-01-01T00:00:00.000Z'

/** Returns the status and the metrics of a service with one worker for each heartbeat; the last one has been killed. */
function describe(...heartbeats: Partial<Heartbeat>[]) {
  const workers = heartbeats.map((heartbeat, index) =>
    viewOf(
      {
        id: index,
        pid: index + 1,
        startedMs: 0,
        sinceMs: 0,
        hasSocket: true,
        toBeReplaced: false,
        killed: index === heartbeats.length - 1,
        exitCause: undefined,
        state: 'ready',
        lastHeardMs: 0,
        heartbeat: { ...emptyHeartbeat, ...heartbeat },
      },
      1000,
      0,
    ),
  )
  const latency = noTraffic.latency.map((_, at) => (at === 12 ? 3 : 0))
  const traffic = { responses: { '2xx': 3 }, latency, latencySumMs: 1500.0004 }
  const fleet = {
    workers: () => workers,
    watch: () => undefined,
    isStopping: () => false,
    lostWorkers: () => 7,
    totals: () => ({ ports: {}, routes: { https: { '/v1/users': traffic } }, cache: { hits: 0, misses: 0 } }),
  }
  const status = createStatusReader({
    config: {
      node: 'n',
      ports: [{ label: 'https', port: 443, protocol: 'https' }],
      control: { host: '', offset: 1, socket: '' },
      health: { databaseGraceMs: 0 },
      drain: { mode: '404', delayMs: 0, idleMs: 0, quietMs: 0, deadlineMs: 0 },
    },
    maintenance: { get: () => serve('start', currentMoment()), startOf: () => null },
    fleet,
    checkers: createCheckers(),
    certificates: { validTo: () => expiry },
  })
  return { status, metrics: createMetrics(status, fleet) }
}

const report = (more: Partial<PortReport>): PortReport => ({
  state: 'serving',
  connections: 0,
  active: 0,
  inFlight: 0,
  unanswered: {},
  quietMs: 0,
  ...more,
})

const cacheOf = (state: Heartbeat['cache']['state']) => ({ hits: 0, misses: 0, state })

test('status: tells the worst of what the workers report, and the sums', t => {
  const arriving = (perSecond: number, ...addresses: string[]) => ({ arriving: { perSecond, addresses } })
  const { status } = describe(
    {
      cache: cacheOf('connected'),
      changes: { waiting: 1, waitingSeconds: 9, readers: 2 },
      ports: { https: report({ connections: 2, inFlight: 1, ...arriving(1, 'a', 'b') }) },
    },
    {
      cache: cacheOf('away'),
      changes: { waiting: 5, waitingSeconds: 3, readers: 4 },
      ports: { https: report({ connections: 3, inFlight: 2, ...arriving(2.5, 'b', 'c') }) },
    },
  )
  const { ports, workers, redis, changes } = status.current()
  t.is(redis, 'away')
  t.deepEqual(changes, { waiting: 5, waiting_seconds: 9, readers: 6 })
  t.like(ports.https, { connections: 5, in_flight: 3, valid_to: expiry, control_port: 444 })
  t.deepEqual(
    workers.map(({ pid, state, in_flight }) => [pid, state, in_flight]),
    [
      [1, 'ready', 1],
      [2, 'killed', 2],
    ],
  )
  t.deepEqual(status.arriving('https'), { perSecond: 3.5, addresses: ['a', 'b', 'c'] })
  t.is(describe().status.current().redis, 'connecting', 'no worker has reported')
})

test('metrics: tell what is wrong with a worker, in seconds and by label', async t => {
  const { metrics } = describe(
    { databaseDownMs: 1, lagP99Ms: 1500, lagMs: 2500, pool: { used: 1, free: 2, waiting: 3, max: 4 } },
    { cache: cacheOf('away') },
    { cache: cacheOf('connected') },
  )
  const lines = (await metrics.text()).split('\n')
  const valuesOf = (name: string) =>
    lines.filter(line => line.startsWith(`${name}{`)).map(line => line.slice(name.length))
  const workers = (...values: number[]) => values.map((value, index) => `{worker="${index + 1}"} ${value}`)
  t.deepEqual(valuesOf('users_api_worker_database_up'), workers(0, 1, 1))
  t.deepEqual(valuesOf('users_api_worker_cache_up'), workers(0, 0, 1).slice(1))
  t.deepEqual(valuesOf('users_api_worker_eventloop_lag_p99_seconds'), workers(1.5, 0, 0))
  t.deepEqual(valuesOf('users_api_worker_eventloop_lag_max_seconds'), workers(2.5, 0, 0))
  t.deepEqual(
    valuesOf('users_api_database_pool_connections').slice(0, 4),
    ['used', 'free', 'waiting', 'max'].map((state, index) => `{worker="1",state="${state}"} ${index + 1}`),
  )
  t.deepEqual(valuesOf('users_api_port_state'), [
    '{port="https",state="serving"} 1',
    '{port="https",state="draining"} 0',
    '{port="https",state="drained"} 0',
  ])
  t.true(lines.includes('users_api_lost_workers_total 7'))
  const route = 'port="https",route="/v1/users"'
  t.deepEqual(valuesOf('http_request_duration_seconds_bucket').slice(11, 14), [
    `{le="0.25",${route}} 0`,
    `{le="0.5",${route}} 3`,
    `{le="1",${route}} 3`,
  ])
  t.deepEqual(valuesOf('http_request_duration_seconds_sum'), [`{${route}} 1.5`])
  const [left = ''] = valuesOf('users_api_certificate_expiry_seconds')
  const seconds = Number(left.replace('{port="https"} ', ''))
  t.true(Math.abs(seconds - (Date.parse(expiry) - Date.now()) / 1000) < 60)
})
