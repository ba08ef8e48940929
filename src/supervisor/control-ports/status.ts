// The current status for operators, the status page and health checks, computed from state in memory.
import * as z from 'zod'
import type { Config, DataPortConfig } from '../../config/config.ts'
import { version } from '../../config/root.ts'
import { drainModes } from '../../config/schema.ts'
import { type CacheState, cacheStates } from '../../core/messages.ts'
import type { Certificates } from '../certificates.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { WorkerView } from '../fleet/worker-view.ts'
import type { Maintenance } from '../maintenance.ts'
import { portStates, stateOf } from '../port-states.ts'
import { type Checkers, checkerSchema } from './checkers.ts'
import { databaseDownMs, type Health, healthOf, isServing } from './health.ts'

interface StatusOptions {
  readonly config: Pick<Config, 'ports' | 'control' | 'health' | 'drain' | 'node'>
  readonly maintenance: Pick<Maintenance, 'get' | 'startOf'>
  readonly fleet: Pick<Fleet, 'workers' | 'watch' | 'isStopping'>
  readonly checkers: Pick<Checkers, 'list'>
  readonly certificates: Pick<Certificates, 'validTo'>
}

export const portSchema = z.object({
  port: z.int(),
  control_port: z.int(),
  state: z.enum(portStates),
  /** How health checks report the maintenance; null while the port serves. */
  mode: z.enum(drainModes).nullable(),
  since: z.string(),
  by: z.string(),
  connections: z.int(),
  in_flight: z.int(),
  /** When the certificate expires, ISO 8601; null for http. */
  valid_to: z.string().nullable(),
  checkers: z.array(checkerSchema),
})
export type PortStatus = z.output<typeof portSchema>

const workerSchema = z.object({
  pid: z.int().optional(),
  state: z.enum(['booting', 'ready', 'retiring', 'killed']),
  started: z.string(),
  in_flight: z.int(),
  lag_ms: z.number(),
  memory_bytes: z.number(),
})
type WorkerStatus = z.output<typeof workerSchema>

/** Responses during the watch of a reload, and those of them that failed: with a status of 5xx, or missing. */
const figuresSchema = z.object({ responses: z.int(), failed: z.int() })

/** Commands read the status of a supervisor with this schema. */
export const statusSchema = z.object({
  node: z.string(),
  /** The version of the supervisor. After a reload the workers can have a later one. */
  version: z.string(),
  /** Start of the supervisor, ISO 8601. */
  started: z.string(),
  /** By label. */
  ports: z.record(z.string(), portSchema),
  workers: z.array(workerSchema),
  /** Set while a reload watches its first new worker: its process id, the milliseconds left, and the figures so far. */
  watch: z
    .object({ pid: z.int().optional(), left_ms: z.number(), fresh: figuresSchema, old: figuresSchema })
    .optional(),
  /** The worst state that a worker reports, in the order of `cacheStates`. */
  redis: z.enum(cacheStates),
  /** The change feed; missing if it is off. The changes that wait for a number, and seconds, are the most that a worker has seen. */
  changes: z.object({ waiting: z.int(), waiting_seconds: z.number(), readers: z.int() }).optional(),
})
export type Status = z.output<typeof statusSchema>

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)

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

export type StatusReader = ReturnType<typeof createStatusReader>

export function createStatusReader({ config, maintenance, fleet, checkers, certificates }: StatusOptions) {
  const started = new Date().toISOString()

  const reportsOf = (label: string) =>
    fleet.workers().flatMap(({ heartbeat }) => heartbeat?.ports[label] ?? [])

  function portStatus({ label, port }: DataPortConfig): PortStatus {
    const portMaintenance = maintenance.get(label)
    const { mode, since, by } = portMaintenance
    const reports = reportsOf(label)
    return {
      port,
      control_port: port + config.control.offset,
      state: stateOf(portMaintenance, reports, config.drain.quietMs),
      mode,
      since,
      by,
      connections: sum(reports.map(report => report.connections)),
      in_flight: sum(reports.map(report => report.inFlight)),
      valid_to: certificates.validTo(label),
      checkers: checkers.list(label, maintenance.startOf(label), performance.now()),
    }
  }

  function redis(): CacheState {
    const reported = fleet.workers().flatMap(({ heartbeat }) => heartbeat?.cache.state ?? [])
    return cacheStates.find(state => reported.includes(state)) ?? 'connecting'
  }

  function changes(): Status['changes'] {
    const feeds = fleet.workers().flatMap(({ heartbeat }) => heartbeat?.changes ?? [])
    if (feeds.length === 0) return undefined
    return {
      waiting: Math.max(...feeds.map(({ waiting }) => waiting)),
      waiting_seconds: Math.max(...feeds.map(({ waitingSeconds }) => waitingSeconds)),
      readers: sum(feeds.map(({ readers }) => readers)),
    }
  }

  return {
    current: (): Status => ({
      node: config.node,
      version,
      started,
      ports: Object.fromEntries(config.ports.map(port => [port.label, portStatus(port)])),
      workers: fleet.workers().map(workerStatus),
      watch: fleet.watch(),
      redis: redis(),
      changes: changes(),
    }),

    /** Returns the requests that still arrive a second at a port, and the addresses that send most of them. */
    arriving(label: string) {
      const arriving = reportsOf(label).flatMap(report => report.arriving ?? [])
      return {
        perSecond: sum(arriving.map(({ perSecond }) => perSecond)),
        addresses: [...new Set(arriving.flatMap(({ addresses }) => addresses))],
      }
    },

    /** Returns the response to a health check of the label. */
    health(label: string): Health {
      const serving = fleet.workers().filter(worker => isServing(worker, fleet.isStopping()))
      const reports = serving.flatMap(({ heartbeat }) => heartbeat?.ports[label] ?? [])
      const state = stateOf(maintenance.get(label), reports, config.drain.quietMs)
      return healthOf(label, state, serving.map(databaseDownMs), config.health.databaseGraceMs)
    },
  }
}
