// The current status for operators, the status page and health checks, computed from state in memory.
import type { Config, DataPortConfig } from '../../config/config.ts'
import { version } from '../../config/root.ts'
import { type CacheState, cacheStates } from '../../core/messages.ts'
import type { Certificates } from '../certificates.ts'
import type { Cluster } from '../cluster/processes.ts'
import type { WorkerView } from '../cluster/worker-handle.ts'
import type { Maintenance } from '../maintenance.ts'
import { type DrainMode, type PortState, stateOf } from '../port-states.ts'
import type { Checker, Checkers } from './checkers.ts'
import { type Health, healthOf, isServing } from './health.ts'

export interface StatusOptions {
  readonly config: Pick<Config, 'ports' | 'control' | 'health' | 'node'>
  readonly maintenance: Maintenance
  readonly cluster: Cluster
  readonly checkers: Checkers
  readonly certificates: Certificates
}

export interface PortStatus {
  readonly port: number
  readonly control_port: number
  readonly state: PortState
  /** How health checks report the maintenance; null while the port serves. */
  readonly mode: DrainMode | null
  readonly since: string
  readonly by: string
  readonly connections: number
  readonly in_flight: number
  /** When the certificate expires, ISO 8601; null for http. */
  readonly valid_to: string | null
  readonly checkers: readonly Checker[]
}

interface WorkerStatus {
  readonly pid: number | undefined
  readonly state: WorkerView['state'] | 'killed'
  readonly started: string
  readonly in_flight: number
  readonly lag_ms: number
  readonly memory_bytes: number
}

export interface Status {
  readonly node: string
  /** The version of the supervisor. After a reload the workers can have a later one. */
  readonly version: string
  /** Start of the supervisor, ISO 8601. */
  readonly started: string
  readonly ports: Readonly<Record<string, PortStatus>>
  readonly workers: readonly WorkerStatus[]
  /** The worst state that a worker reports, in the order of `cacheStates`. */
  readonly redis: CacheState
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}

function workerStatus({ pid, state, killed, startedMs, heartbeat }: WorkerView): WorkerStatus {
  return {
    pid,
    state: killed ? 'killed' : state,
    started: new Date(startedMs).toISOString(),
    in_flight: sum(Object.values(heartbeat?.ports ?? {}).map(report => report.inFlight)),
    lag_ms: heartbeat?.lagMs ?? 0,
    memory_bytes: heartbeat?.rssBytes ?? 0,
  }
}

export function createStatus({ config, maintenance, cluster, checkers, certificates }: StatusOptions) {
  const started = new Date().toISOString()

  function portStatus({ label, port }: DataPortConfig): PortStatus {
    const portMaintenance = maintenance.get(label)
    const { mode, since, by } = portMaintenance
    const reports = cluster.workers().flatMap(({ heartbeat }) => heartbeat?.ports[label] ?? [])
    return {
      port,
      control_port: port + config.control.offset,
      state: stateOf(portMaintenance, reports),
      mode,
      since,
      by,
      connections: sum(reports.map(report => report.connections)),
      in_flight: sum(reports.map(report => report.inFlight)),
      valid_to: certificates.validTo(label),
      checkers: checkers.list(label, new Date()),
    }
  }

  function redis(): CacheState {
    const reported = cluster.workers().flatMap(({ heartbeat }) => heartbeat?.cache.state ?? [])
    return cacheStates.find(state => reported.includes(state)) ?? 'connecting'
  }

  return {
    current: (): Status => ({
      node: config.node,
      version,
      started,
      ports: Object.fromEntries(config.ports.map(port => [port.label, portStatus(port)])),
      workers: cluster.workers().map(workerStatus),
      redis: redis(),
    }),

    /** Returns the response to a health check of the label. */
    health(label: string): Health {
      const serving = cluster.workers().filter(worker => isServing(worker, cluster.isStopping()))
      const reports = serving.flatMap(({ heartbeat }) => heartbeat?.ports[label] ?? [])
      return healthOf(
        label,
        {
          state: stateOf(maintenance.get(label), reports),
          databaseDownSinceMs: serving.map(({ heartbeat }) => heartbeat?.databaseDownSinceMs),
        },
        config.health.databaseGraceMs,
        Date.now(),
      )
    },
  }
}
