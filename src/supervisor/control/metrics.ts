// The metrics for Prometheus, in prom-client's names and conventions: sums of the cluster by port, gauges by worker.
import { AggregatorRegistry, collectDefaultMetrics, Registry } from 'prom-client'
import { latencyBoundsMs } from '../../core/messages.ts'
import type { WorkerView } from '../cluster/worker-handle.ts'
import type { Status } from './status.ts'
import type { ClusterTotals } from './traffic-totals.ts'

export interface MetricsSources {
  status(): Status
  totals(): ClusterTotals
  workers(): readonly WorkerView[]
}

interface Value {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  readonly metricName?: string
}

const states = ['serving', 'draining', 'drained'] as const

/** As prom-client's `getMetricsAsJSON` gives a metric; there is one of each, so that the sum is itself. */
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

/** Cumulative and in seconds, as Prometheus has them. */
function histogramValues(name: string, { ports }: ClusterTotals): Value[] {
  return Object.entries(ports).flatMap(([port, { latency, latencySumMs }]) => {
    let count = 0
    const buckets = latency.map((own, at) => {
      count += own
      const boundMs = latencyBoundsMs[at]
      const le = boundMs === undefined ? '+Inf' : boundMs / 1000
      return { metricName: `${name}_bucket`, labels: { le, port }, value: count }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels: { port }, value: latencySumMs / 1000 },
      { metricName: `${name}_count`, labels: { port }, value: count },
    ]
  })
}

function ofTraffic(totals: ClusterTotals) {
  const duration = 'http_request_duration_seconds'
  const responses = Object.entries(totals.ports).flatMap(([port, traffic]) =>
    Object.entries(traffic.responses).map(([code, value]) => ({ labels: { port, code }, value })),
  )
  const lookups = Object.entries(totals.cache).map(([result, value]) => ({ labels: { result }, value }))
  return [
    metric('counter', 'http_responses_total', 'Responses by port and class of status.', responses),
    metric(
      'histogram',
      duration,
      'From the request until the end of its response.',
      histogramValues(duration, totals),
    ),
    metric('counter', 'users_api_cache_lookups_total', 'Includes looked up in Redis.', lookups),
  ]
}

function ofPorts({ ports }: Status) {
  const gauge = (name: string, help: string, value: (status: Status['ports'][string]) => number) =>
    metric(
      'gauge',
      name,
      help,
      Object.entries(ports).map(([port, status]) => ({ labels: { port }, value: value(status) })),
    )
  const stateValues = Object.entries(ports).flatMap(([port, { state }]) =>
    states.map(one => ({ labels: { port, state: one }, value: one === state ? 1 : 0 })),
  )
  return [
    gauge('http_connections', 'Open connections.', status => status.connections),
    gauge('http_requests_in_flight', 'Requests that wait for their answer.', status => status.in_flight),
    metric('gauge', 'users_api_port_state', '1 for the state that the port is in.', stateValues),
  ]
}

function ofWorkers(workers: readonly WorkerView[]) {
  const gauge = (
    name: string,
    help: string,
    value: (heartbeat: NonNullable<WorkerView['heartbeat']>) => number,
  ) =>
    metric(
      'gauge',
      name,
      help,
      workers.flatMap(({ pid, heartbeat }) =>
        heartbeat === undefined ? [] : [{ labels: { worker: pid ?? 0 }, value: value(heartbeat) }],
      ),
    )
  const pool = workers.flatMap(({ pid, heartbeat }) =>
    Object.entries(heartbeat?.pool ?? {}).map(([state, value]) => ({
      labels: { worker: pid ?? 0, state },
      value,
    })),
  )
  return [
    gauge(
      'users_api_worker_eventloop_lag_p99_seconds',
      'Of the last second.',
      heartbeat => heartbeat.lagP99Ms / 1000,
    ),
    gauge(
      'users_api_worker_eventloop_lag_max_seconds',
      'Of the last second.',
      heartbeat => heartbeat.lagMs / 1000,
    ),
    gauge('users_api_worker_resident_memory_bytes', 'Resident memory.', heartbeat => heartbeat.rssBytes),
    gauge('users_api_worker_database_up', '0 while the worker cannot reach the database.', heartbeat =>
      heartbeat.databaseDownSinceMs === undefined ? 1 : 0,
    ),
    gauge('users_api_worker_cache_up', '0 while the worker cannot use Redis, or has none.', heartbeat =>
      heartbeat.cache.state === 'connected' ? 1 : 0,
    ),
    metric('gauge', 'users_api_database_pool_connections', 'Connections and waiters of the pool.', pool),
  ]
}

/** @returns what `/metrics` answers, and its media type */
export function createMetrics(sources: MetricsSources) {
  const own = new Registry()
  collectDefaultMetrics({ register: own })

  return {
    contentType: own.contentType,
    async text(): Promise<string> {
      const status = sources.status()
      const cluster = [...ofTraffic(sources.totals()), ...ofPorts(status), ...ofWorkers(sources.workers())]
      const metrics = [...cluster, ...(await own.getMetricsAsJSON())]
      return AggregatorRegistry.aggregate([metrics]).metrics()
    },
  }
}
