// The read-only documents of a control port: the status page, its data (/status and /history) and the metrics.
import type { Health } from './health.ts'
import { createHistory } from './history.ts'
import { createMetrics, type MetricsSources } from './metrics.ts'
import { createPage } from './status-page.ts'

export interface Document {
  /** A string is sent as it is, everything else as JSON. */
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** By path. */
export type Documents = Readonly<Record<string, () => Document | Promise<Document>>>

export interface DocumentSources extends MetricsSources {
  /** Returns the response to a health check of the label. */
  health(label: string): Health
}

export function createDocuments(labels: readonly string[], sources: DocumentSources): Documents {
  const { status, totals, workers } = sources
  const page = createPage()
  const metrics = createMetrics(sources)
  const history = createHistory(labels, () => {
    // The samples are kept, so they contain only what the history shows.
    const { ports, cache } = totals()
    const connections = Object.entries(status().ports).map(([label, port]) => [label, port.connections])
    return { totals: { ports, cache }, connections: Object.fromEntries(connections) }
  })

  function historyDocument() {
    const pools = workers().flatMap(({ heartbeat }) => heartbeat?.pool ?? [])
    const sum = (pick: (pool: (typeof pools)[number]) => number) =>
      pools.reduce((total, pool) => total + pick(pool), 0)
    return {
      now: new Date().toISOString(),
      interval_ms: history.intervalMs,
      health: Object.fromEntries(labels.map(label => [label, sources.health(label)])),
      ports: history.ports(),
      cache: { hit_ratio: history.cacheHitRatio() },
      pool: {
        used: sum(({ used }) => used),
        free: sum(({ free }) => free),
        waiting: sum(({ waiting }) => waiting),
        max: sum(({ max }) => max),
      },
      memory_bytes: {
        supervisor: process.memoryUsage.rss(),
        workers: Object.fromEntries(workers().map(({ pid, heartbeat }) => [pid, heartbeat?.rssBytes ?? 0])),
      },
    }
  }

  return {
    '/': () => page,
    '/status': () => ({ body: status() }),
    '/history': () => ({ body: historyDocument() }),
    '/metrics': async () => ({
      body: await metrics.text(),
      headers: { 'Content-Type': metrics.contentType },
    }),
  }
}
