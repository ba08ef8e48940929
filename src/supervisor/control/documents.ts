// The read-only documents of a control port: the status page, its data (/status and /history) and the metrics.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createHistory } from './history.ts'
import { createMetrics, type Sources } from './metrics.ts'

export interface Document {
  /** A string is sent as it is, everything else as JSON. */
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** By path. */
export type Documents = Readonly<Record<string, () => Document | Promise<Document>>>

/** Returns the CSP source expressions that allow exactly the inline blocks of this element. */
function hashesOf(html: string, element: 'script' | 'style'): string {
  const blocks = [...html.matchAll(new RegExp(`<${element}[^>]*>(.*?)</${element}>`, 'gs'))]
  return blocks
    .map(([, text = '']) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`)
    .join(' ')
}

/**
 * Returns the status page: one static HTML file. Its Content-Security-Policy allows only its own inline script and style,
 * requests to its own origin, and no framing.
 * @throws Error if status-page.html is missing
 */
function createPage(): Document {
  const body = readFileSync(new URL('./status-page.html', import.meta.url), 'utf8')
  const policy = [
    "default-src 'none'",
    `script-src ${hashesOf(body, 'script')}`,
    `style-src ${hashesOf(body, 'style')}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    // No text from the service can be parsed as markup: the page creates no Trusted Types policy.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ]
  return {
    body,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': policy.join('; '),
      'Referrer-Policy': 'no-referrer',
    },
  }
}

export function createDocuments(labels: readonly string[], sources: Sources): Documents {
  const { status, traffic, cluster } = sources
  const page = createPage()
  const metrics = createMetrics(sources)
  const history = createHistory(labels, () => {
    // The samples are kept, so they contain only what the history shows.
    const { ports, cache } = traffic.totals()
    const connections = Object.entries(status.current().ports).map(([label, port]) => [
      label,
      port.connections,
    ])
    return { totals: { ports, cache }, connections: Object.fromEntries(connections) }
  })

  function historyDocument() {
    const pools = cluster.workers().flatMap(({ heartbeat }) => heartbeat?.pool ?? [])
    const sum = (pick: (pool: (typeof pools)[number]) => number) =>
      pools.reduce((total, pool) => total + pick(pool), 0)
    return {
      now: new Date().toISOString(),
      interval_ms: history.intervalMs,
      health: Object.fromEntries(labels.map(label => [label, status.health(label)])),
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
        workers: Object.fromEntries(
          cluster.workers().map(({ pid, heartbeat }) => [pid, heartbeat?.rssBytes ?? 0]),
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
