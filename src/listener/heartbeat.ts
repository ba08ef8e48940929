// What a worker tells its supervisor of itself, again and again.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Cache } from '../cache/cache.ts'
import type { Heartbeat } from '../core/messages.ts'
import type { Database } from '../database/database.ts'
import type { DataPort } from './data-port.ts'

const LAG_RESOLUTION_MS = 20

export interface HeartbeatOptions {
  readonly everyMs: number
  readonly pool: Database['pool']
  readonly downSinceMs: Database['downSinceMs']
  readonly cache: Cache
  /** Those that come later are told of, too. */
  readonly ports: readonly DataPort[]
  /** The number of the supervisor's message that was appliedRevision last. */
  appliedRevision(): number
  send(heartbeat: Heartbeat): void
}

/** @returns a function that heartbeats at once, out of turn */
export function startHeartbeat({
  everyMs,
  pool,
  downSinceMs,
  cache,
  ports,
  appliedRevision,
  send,
}: HeartbeatOptions): () => void {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
  lag.enable()
  // What was measured is the time between two ticks of its own.
  const lagMs = (nanoseconds: number) => Math.max(0, Math.round(nanoseconds / 1e6) - LAG_RESOLUTION_MS)
  const heartbeat = (): void => {
    const databaseDownSinceMs = downSinceMs()
    send({
      type: 'heartbeat',
      appliedRevision: appliedRevision(),
      ports: Object.fromEntries(ports.map(port => [port.label, port.report()])),
      traffic: Object.fromEntries(ports.map(port => [port.label, port.traffic()])),
      lagMs: lagMs(lag.max),
      lagP99Ms: lagMs(lag.percentile(99)),
      cache: cache.report(),
      pool: pool(),
      rssBytes: process.memoryUsage.rss(),
      ...(databaseDownSinceMs !== undefined && { databaseDownSinceMs }),
    })
    lag.reset()
  }
  setInterval(heartbeat, everyMs).unref()
  return heartbeat
}
