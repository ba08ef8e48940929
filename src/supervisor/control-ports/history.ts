// Keeps the traffic of the last five minutes, one sample a second, for the status page.
import { latencyBoundsMs, type TrafficTotals } from '../../core/messages.ts'
import { noTraffic } from '../../core/traffic-totals.ts'
import type { FleetTotals } from '../fleet/totals.ts'

const INTERVAL_MS = 1000
const SAMPLES = 300
/** Rates are means over this many intervals, because heartbeats are not synchronized with the samples. */
const WINDOW = 3

interface Sample {
  /** `performance.now()`. A suspended or busy supervisor takes samples late. */
  readonly atMs: number
  readonly totals: Pick<FleetTotals, 'ports' | 'cache'>
  readonly connections: Readonly<Record<string, number>>
}

/**
 * Returns a percentile of the latency in ms, interpolated linearly within its bucket; null without requests.
 * @param share 0 to 1, e.g. 0.99
 */
export function percentileMs(latency: readonly number[], share: number): number | null {
  const total = latency.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  let left = total * share
  for (const [at, count] of latency.entries()) {
    const lower = latencyBoundsMs[at - 1] ?? 0
    if (left <= count) return lower + ((latencyBoundsMs[at] ?? lower) - lower) * (left / count)
    left -= count
  }
  return latencyBoundsMs.at(-1) ?? null
}

function countOf({ responses }: TrafficTotals, outcomes: readonly string[]): number {
  return outcomes.reduce((sum, outcome) => sum + (responses[outcome] ?? 0), 0)
}

const allOutcomes = ['2xx', '3xx', '4xx', '5xx', 'aborted']

/** @param takeSample returns the current sample */
export function createHistory(labels: readonly string[], takeSample: () => Sample) {
  const samples: Sample[] = [takeSample()]

  function addSample(): void {
    samples.push(takeSample())
    if (samples.length > SAMPLES + WINDOW) samples.shift()
  }
  // After the heartbeats that have arrived already.
  setInterval(() => setImmediate(addSample), INTERVAL_MS).unref()

  /** Returns each sample but the first, with the one that is a window earlier. */
  const steps = () =>
    samples.slice(1).map((sample, index) => {
      const before = samples[Math.max(0, index + 1 - WINDOW)] ?? sample
      return { sample, before, seconds: (sample.atMs - before.atMs) / 1000 }
    })

  function ofPort(label: string) {
    const traffic = steps().map(({ sample, before, seconds }) => ({
      latest: sample.totals.ports[label] ?? noTraffic,
      earlier: before.totals.ports[label] ?? noTraffic,
      seconds,
    }))
    const rate = (outcomes: readonly string[]) =>
      traffic.map(
        ({ latest, earlier, seconds }) => (countOf(latest, outcomes) - countOf(earlier, outcomes)) / seconds,
      )
    const percentile = (share: number) =>
      traffic.map(({ latest, earlier }) => {
        const latency = latest.latency.map((count, at) => count - (earlier.latency[at] ?? 0))
        return percentileMs(latency, share)
      })
    return {
      requests: rate(allOutcomes),
      client_errors: rate(['4xx']),
      server_errors: rate(['5xx']),
      p50_ms: percentile(0.5),
      p99_ms: percentile(0.99),
      connections: steps().map(({ sample }) => sample.connections[label] ?? 0),
    }
  }

  const cacheHitRatio = () =>
    steps().map(({ sample, before }) => {
      const hits = sample.totals.cache.hits - before.totals.cache.hits
      const misses = sample.totals.cache.misses - before.totals.cache.misses
      return hits + misses === 0 ? null : hits / (hits + misses)
    })

  return {
    /** Series by label, oldest value first; rates are per second. */
    ports: () => Object.fromEntries(labels.map(label => [label, ofPort(label)])),
    cacheHitRatio,
    intervalMs: INTERVAL_MS,
  }
}
