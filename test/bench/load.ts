// Measures the service alone: the CPU time of each process per request at the highest rate, and latencies at half that rate.
import { measureAll } from './compare.ts'
import type { Comparison } from './comparisons.ts'
import { measureLatency } from './constant-rate.ts'
import { childOf, cpuUs } from './cpu.ts'
import type { Rounds } from './interleaved.ts'
import { type RunningServer, startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { formatMs, formatRate } from './table.ts'
import { runWrk } from './wrk.ts'

const USERS = 1000
const CONNECTIONS = 64
async function measure(
  { title, request }: Comparison,
  { url, pid }: RunningServer,
  stores: Stores,
  { count, seconds }: Rounds,
  signal: AbortSignal,
): Promise<string[]> {
  const load = { url, request, users: USERS, connections: CONNECTIONS, seconds }
  const pids = [childOf(pid()), pid(), stores.databasePid(), stores.redisPid()]
  const run = () => runWrk({ ...load, closing: false }, signal)
  await run()
  const before = pids.map(cpuUs)
  const rates: number[] = []
  for (let round = 0; round < count; round++) rates.push((await run()).requestsPerSecond)
  const requests = rates.reduce((sum, rate) => sum + rate * seconds, 0)
  const costs = pids.map((one, index) => (cpuUs(one) - (before[index] ?? 0)) / requests)
  const perSecond = Math.floor(requests / seconds / count / 2)
  const { p50Ms, p99Ms, p999Ms } = await measureLatency(
    { ...load, perSecond, seconds: seconds * count },
    signal,
  )
  const cells = [formatRate(2 * perSecond), ...costs.map(us => us.toFixed(us < 10 ? 1 : 0))]
  return [title, ...cells, formatRate(perSecond), ...[p50Ms, p99Ms, p999Ms].map(formatMs)]
}

const header = [
  ...['request', 'requests/s', 'worker, µs', 'supervisor, µs', 'database, µs', 'Redis, µs'],
  ...['half of it, requests/s', 'p50, ms', 'p99, ms', 'p99.9, ms'],
]

/** @returns the table as Markdown */
export const measureLoad = (
  chosen: readonly Comparison[],
  stores: Stores,
  rounds: Rounds,
  signal: AbortSignal,
): Promise<string> =>
  measureAll(chosen, header, async comparison => {
    const databaseUrl = await stores.createPopulated(USERS)
    const settings = { databaseUrl, redisUrl: stores.redisUrl, folder: stores.folder, workers: 1 }
    const row = await withServers([() => startServer('service', settings)], async ([server]) => {
      if (server === undefined) throw new Error('the service was not started')
      return measure(comparison, server, stores, rounds, signal)
    })
    await stores.clear()
    return [row]
  })
