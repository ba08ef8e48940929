// What is known at this moment, for operators, pages and health checks: all from memory.
import type { Config, DataPortConfig } from '../../config/config.ts'
import { type CacheState, cacheStates } from '../../core/messages.ts'
import type { Cluster } from '../cluster/processes.ts'
import type { WorkerView } from '../cluster/worker-handle.ts'
import type { Maintenance } from '../maintenance.ts'
import { type DrainMode, type PortState, stateOf } from '../port-states.ts'
import type { Checker, Checkers } from './checkers.ts'
import { type Health, healthOf } from './health.ts'

export interface StatusOptions {
  readonly config: Pick<Config, 'ports' | 'control' | 'health'>
  readonly maintenance: Maintenance
  readonly cluster: Cluster
  readonly checkers: Checkers
}

export interface PortStatus {
  readonly port: number
  readonly control_port: number
  readonly state: PortState
  /** How its checks tell of the maintenance; null while it serves. */
  readonly mode: DrainMode | null
  readonly since: string
  readonly by: string
  readonly connections: number
  readonly in_flight: number
  readonly checkers: readonly Checker[]
}

interface WorkerStatus {
  readonly pid: number | undefined
  readonly state: WorkerView['state'] | 'killed'
  readonly started: string
  readonly in_flight: number
  readonly lag_ms: number
}

export interface Status {
  readonly ports: Readonly<Record<string, PortStatus>>
  readonly workers: readonly WorkerStatus[]
  /** The worst that a worker knows of it. */
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
  }
}

export function createStatus({ config, maintenance, cluster, checkers }: StatusOptions) {
  function portStatus({ label, port }: DataPortConfig): PortStatus {
    const intent = maintenance.of(label)
    const { mode, since, by } = intent
    const reports = cluster.workers().flatMap(({ heartbeat }) => heartbeat?.ports[label] ?? [])
    return {
      port,
      control_port: port + config.control.offset,
      state: stateOf(intent, reports),
      mode,
      since,
      by,
      connections: sum(reports.map(report => report.connections)),
      in_flight: sum(reports.map(report => report.inFlight)),
      checkers: checkers.of(label, new Date()),
    }
  }

  function redis(): CacheState {
    const known = cluster.workers().flatMap(({ heartbeat }) => heartbeat?.cache.state ?? [])
    return cacheStates.find(state => known.includes(state)) ?? 'connecting'
  }

  return {
    now: (): Status => ({
      ports: Object.fromEntries(config.ports.map(port => [port.label, portStatus(port)])),
      workers: cluster.workers().map(workerStatus),
      redis: redis(),
    }),

    /** What a health check of the label is told. */
    health(label: string): Health {
      // Where the service stops, a retiring worker still serves those who are connected.
      const serving = cluster.workers().filter(({ state }) => state === 'ready' || cluster.isStopping())
      const reports = serving.flatMap(({ heartbeat }) => heartbeat?.ports[label] ?? [])
      return healthOf(
        label,
        {
          state: stateOf(maintenance.of(label), reports),
          databaseDownSinceMs: serving.map(({ heartbeat }) => heartbeat?.databaseDownSinceMs),
        },
        config.health.databaseGraceMs,
        Date.now(),
      )
    },
  }
}
