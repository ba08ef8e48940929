// What a worker tells its supervisor of itself, again and again.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Cache } from '../cache/cache.ts'
import type { Beat } from '../core/messages.ts'
import type { Database } from '../database/database.ts'
import type { DataPort } from './data-port.ts'

const LAG_RESOLUTION_MS = 20

export interface BeatOptions {
  readonly everyMs: number
  readonly pool: Database['pool']
  readonly downSinceMs: Database['downSinceMs']
  readonly cache: Cache
  /** Those that come later are told of, too. */
  readonly ports: readonly DataPort[]
  /** The number of the supervisor's message that was obeyed last. */
  obeyed(): number
  say(beat: Beat): void
}

/** @returns a function that beats at once, out of turn */
export function startBeats({
  everyMs,
  pool,
  downSinceMs,
  cache,
  ports,
  obeyed,
  say,
}: BeatOptions): () => void {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
  lag.enable()
  // What was measured is the time between two ticks of its own.
  const lagMs = (nanoseconds: number) => Math.max(0, Math.round(nanoseconds / 1e6) - LAG_RESOLUTION_MS)
  const beat = (): void => {
    const databaseDownSinceMs = downSinceMs()
    say({
      type: 'beat',
      obeyed: obeyed(),
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
  setInterval(beat, everyMs).unref()
  return beat
}
