// The read-only documents of a control port: the status page, its data (/status and /history) and the metrics.
import { residentMemory } from '../../core/resident-memory.ts'
import { mergeByKey } from '../../core/traffic-totals.ts'
import type { Fleet } from '../fleet/fleet.ts'
import { createHistory } from './history.ts'
import { createMetrics } from './metrics.ts'
import type { StatusReader } from './status.ts'
import { createPage } from './status-page.ts'

export interface Document {
  /** A string is sent as it is, everything else as JSON. */
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** By path. */
export type Documents = Readonly<Record<string, () => Document | Promise<Document>>>

export function createDocuments(labels: readonly string[], status: StatusReader, fleet: Fleet): Documents {
  const page = createPage()
  const metrics = createMetrics(status, fleet)
  const history = createHistory(labels, () => {
    // The samples are kept, so they contain only what the history shows.
    const { ports, cache } = fleet.totals()
    const connections = Object.fromEntries(
      Object.entries(status.current().ports).map(([label, port]) => [label, port.connections]),
    )
    return { atMs: performance.now(), totals: { ports, cache }, connections }
  })

  function historyDocument() {
    const pools = fleet.workers().flatMap(({ heartbeat }) => heartbeat?.pool ?? [])
    const noConnections: Readonly<Record<string, number>> = { used: 0, free: 0, waiting: 0, max: 0 }
    return {
      now: new Date().toISOString(),
      interval_ms: history.intervalMs,
      health: Object.fromEntries(labels.map(label => [label, status.health(label)])),
      ports: history.ports(),
      cache: { hit_ratio: history.cacheHitRatio() },
      pool: pools.reduce((sum, pool) => mergeByKey(sum, pool, (one, other) => one + other), noConnections),
      memory_bytes: {
        supervisor: residentMemory(),
        workers: Object.fromEntries(
          fleet.workers().map(({ pid, heartbeat }) => [String(pid), heartbeat?.rssBytes ?? 0]),
        ),
      },
    }
  }

  return {
    '/': () => page,
    '/status': () => ({ body: status.current() }),
    '/history': () => ({ body: historyDocument() }),
    '/metrics': async () => ({
      body: await metrics.text(),
      headers: { 'Content-Type': metrics.contentType },
    }),
  }
}
