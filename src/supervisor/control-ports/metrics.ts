// The metrics for Prometheus: counters and histograms summed over the workers by port and route, gauges by worker. Names follow the
// conventions of prom-client.
import { AggregatorRegistry, collectDefaultMetrics, Registry } from 'prom-client'
import { type Heartbeat, latencyBoundsMs } from '../../core/messages.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { FleetTotals } from '../fleet/totals.ts'
import type { WorkerView } from '../fleet/worker-view.ts'
import { portStates } from '../port-states.ts'
import type { PortStatus, Status, StatusReader } from './status.ts'

interface Value {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  readonly metricName?: string
}

/** A metric in the form of prom-client's `getMetricsAsJSON`. Each occurs once, so the aggregator `sum` keeps its values. */
const metric = (
  type: 'counter' | 'gauge' | 'histogram',
  name: string,
  help: string,
  values: readonly Value[],
) => ({
  name,
  help,
  type,
  values,
  aggregator: 'sum',
})

const gauge = (name: string, help: string, values: readonly Value[]) => metric('gauge', name, help, values)

/** The totals of every route of every port, with the labels of their values. */
const routesOf = ({ routes }: FleetTotals) =>
  Object.entries(routes).flatMap(([port, byRoute]) =>
    Object.entries(byRoute).map(([route, traffic]) => ({ labels: { port, route }, traffic })),
  )

/** Prometheus histograms have cumulative buckets, in seconds. */
function histogramValues(name: string, totals: FleetTotals): Value[] {
  return routesOf(totals).flatMap(({ labels, traffic: { latency, latencySumMs } }) => {
    let count = 0
    const buckets = latency.map((bucketCount, at) => {
      count += bucketCount
      const boundMs = latencyBoundsMs[at]
      const le = boundMs === undefined ? '+Inf' : boundMs / 1000
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count }
    })
    return [
      ...buckets,
      // Rounded to microseconds: when a worker exits, the order of the additions changes, and with it the last digit. A counter
      // that falls would count as started again.
      { metricName: `${name}_sum`, labels, value: Math.round(latencySumMs * 1000) / 1e6 },
      { metricName: `${name}_count`, labels, value: count },
    ]
  })
}

function trafficMetrics(totals: FleetTotals) {
  const duration = 'http_request_duration_seconds'
  const responses = routesOf(totals).flatMap(({ labels, traffic }) =>
    Object.entries(traffic.responses).map(([code, value]) => ({ labels: { ...labels, code }, value })),
  )
  const durations = histogramValues(duration, totals)
  const lookups = Object.entries(totals.cache).map(([result, value]) => ({ labels: { result }, value }))
  return [
    metric('counter', 'http_responses_total', 'Responses by port, route and status class.', responses),
    metric(
      'histogram',
      duration,
      'Time from the request to the end of its response; without responses that wait for changes.',
      durations,
    ),
    metric(
      'counter',
      'users_api_cache_lookups_total',
      'Lookups of included records in Redis, by result.',
      lookups,
    ),
  ]
}

function statusMetrics({ node, version, ports }: Status) {
  const labeled = Object.entries(ports).map(([port, status]) => ({ labels: { port }, status }))
  const portGauge = (name: string, help: string, measure: (status: PortStatus) => number) => {
    const values = labeled.map(({ labels, status }) => ({ labels, value: measure(status) }))
    return gauge(name, help, values)
  }
  const stateValues = labeled.flatMap(({ labels, status }) =>
    portStates.map(state => ({ labels: { ...labels, state }, value: state === status.state ? 1 : 0 })),
  )
  const expiries = labeled.flatMap(({ labels, status: { valid_to } }) =>
    valid_to === null ? [] : [{ labels, value: (Date.parse(valid_to) - Date.now()) / 1000 }],
  )
  return [
    // The labels identify the node. In queries they can be joined to the other metrics by `instance`.
    gauge('users_api_build_info', 'Always 1; the labels tell the node and its version.', [
      { labels: { node, version }, value: 1 },
    ]),
    portGauge('http_connections', 'Open connections.', status => status.connections),
    portGauge('http_requests_in_flight', 'Requests in flight.', status => status.in_flight),
    gauge('users_api_port_state', '1 for the current state of the port, else 0.', stateValues),
    gauge(
      'users_api_certificate_expiry_seconds',
      'Seconds until the certificate of an https port expires.',
      expiries,
    ),
  ]
}

function workerMetrics(workers: readonly WorkerView[]) {
  const reported = workers.flatMap(({ pid, heartbeat }) =>
    heartbeat === undefined ? [] : [{ labels: { worker: pid ?? 0 }, heartbeat }],
  )
  const workerGauge = (name: string, help: string, measure: (heartbeat: Heartbeat) => number | undefined) => {
    const values = reported.flatMap(({ labels, heartbeat }) => {
      const value = measure(heartbeat)
      return value === undefined ? [] : [{ labels, value }]
    })
    return gauge(name, help, values)
  }
  const pool = reported.flatMap(({ labels, heartbeat }) =>
    Object.entries(heartbeat.pool).map(([state, value]) => ({ labels: { ...labels, state }, value })),
  )
  return [
    workerGauge(
      'users_api_changes_waiting',
      'Changes that wait for their number in the feed, as each worker has seen them.',
      ({ changes }) => changes?.waiting,
    ),
    workerGauge(
      'users_api_changes_waiting_seconds',
      'How long the oldest of these changes has waited.',
      ({ changes }) => changes?.waitingSeconds,
    ),
    workerGauge(
      'users_api_changes_readers',
      'Requests that wait for a change: streams, and requests with wait.',
      ({ changes }) => changes?.readers,
    ),
    workerGauge(
      'users_api_worker_eventloop_lag_p99_seconds',
      'Event loop lag since the last heartbeat, 99th percentile.',
      ({ lagP99Ms }) => lagP99Ms / 1000,
    ),
    workerGauge(
      'users_api_worker_eventloop_lag_max_seconds',
      'Maximum event loop lag since the last heartbeat.',
      ({ lagMs }) => lagMs / 1000,
    ),
    workerGauge('users_api_worker_resident_memory_bytes', 'Resident memory.', ({ rssBytes }) => rssBytes),
    workerGauge(
      'users_api_worker_database_up',
      '0 while the database is unreachable.',
      ({ databaseDownMs }) => (databaseDownMs === undefined ? 1 : 0),
    ),
    workerGauge(
      'users_api_worker_cache_up',
      '0 while Redis is unreachable; absent if it is not configured.',
      ({ cache: { state } }) => (state === 'none' ? undefined : Number(state === 'connected')),
    ),
    gauge(
      'users_api_database_pool_connections',
      'Connections of the pool and requests waiting for one, by state.',
      pool,
    ),
  ]
}

/** Creates the text of `/metrics` and its media type. */
export function createMetrics(
  status: Pick<StatusReader, 'current'>,
  fleet: Pick<Fleet, 'workers' | 'totals' | 'lostWorkers'>,
) {
  const supervisorRegistry = new Registry()
  collectDefaultMetrics({ register: supervisorRegistry })

  return {
    contentType: supervisorRegistry.contentType,
    async text(): Promise<string> {
      const ofFleet = [
        ...trafficMetrics(fleet.totals()),
        ...statusMetrics(status.current()),
        ...workerMetrics(fleet.workers()),
        metric(
          'counter',
          'users_api_lost_workers_total',
          'Workers that have exited without being retired, or could not be created.',
          [{ labels: {}, value: fleet.lostWorkers() }],
        ),
      ]
      const metrics = [...ofFleet, ...(await supervisorRegistry.getMetricsAsJSON())]
      return AggregatorRegistry.aggregate([metrics]).metrics()
    },
  }
}
