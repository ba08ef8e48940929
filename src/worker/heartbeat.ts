// Sends the heartbeat of a worker to the supervisor at a fixed interval: port states, traffic, event loop lag,
// cache, database, change feed and memory.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Cache } from '../cache/cache.ts'
import type { Heartbeat } from '../core/messages.ts'
import { residentMemory } from '../core/resident-memory.ts'
import type { Database } from '../database/database.ts'
import type { DataPort } from '../listener/data-port.ts'

const LAG_RESOLUTION_MS = 20

interface HeartbeatOptions {
  readonly everyMs: number
  readonly database: Database
  readonly cache: Cache
  /** Returns the ports to report. */
  ports(): readonly DataPort[]
  /** Returns the state of the change feed; undefined if it is off. */
  changes(): Heartbeat['changes']
  send(heartbeat: Heartbeat): Promise<void>
}

/**
 * Starts the interval.
 * @returns a function that sends a heartbeat now. It and each later one acknowledge the revision of a desired state
 */
export function startHeartbeat(options: HeartbeatOptions): (revision?: number) => Promise<void> {
  const { everyMs, database, cache, changes, send } = options
  let appliedRevision = 0
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
  lag.enable()
  // The histogram contains the time between two ticks of its timer, which includes the timer's interval.
  const lagMs = (nanoseconds: number) => Math.max(0, Math.round(nanoseconds / 1e6) - LAG_RESOLUTION_MS)
  const heartbeat = (): Promise<void> => {
    const sinceMs = database.downSinceMs()
    const ports = options.ports()
    return send({
      type: 'heartbeat',
      appliedRevision,
      ports: Object.fromEntries(ports.map(port => [port.label, port.report()])),
      traffic: Object.fromEntries(ports.map(({ label, traffic }) => [label, traffic.totals()])),
      routes: Object.fromEntries(ports.map(({ label, traffic }) => [label, traffic.routes()])),
      lagMs: lagMs(lag.max),
      lagP99Ms: lagMs(lag.percentile(99)),
      cache: cache.report(),
      pool: database.pool(),
      rssBytes: residentMemory(),
      changes: changes(),
      ...(sinceMs !== undefined && { databaseDownMs: performance.now() - sinceMs }),
    })
  }
  setInterval(() => {
    void heartbeat()
    // Acknowledgements in between report the lag since the last heartbeat.
    lag.reset()
  }, everyMs).unref()
  return (revision = appliedRevision) => {
    appliedRevision = revision
    return heartbeat()
  }
}
