// Measures the service beside another revision of itself, in interleaved rounds: the rates, and the CPU time of the worker for
// each request.
import { join } from 'node:path'
import { buildRevision } from '../cluster/build-revision.ts'
import { executeOn } from '../support/execute.ts'
import { measureAll } from './compare.ts'
import type { Comparison } from './comparisons.ts'
import { childOf, cpuUs } from './cpu.ts'
import { measureInterleaved, median, type Rounds } from './interleaved.ts'
import { startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { formatRate, formatRatio } from './table.ts'
import { type Load, runWrk } from './wrk.ts'

const USERS = 1000

const header = [
  ...['request', 'requests/s before', 'now', 'now ÷ before'],
  ...['worker, µs before', 'now', 'now ÷ before'],
]

/**
 * @param revision such as a tag or the hash of a commit; it must be able to use the current schema
 * @returns the table as Markdown
 */
export async function measureRevision(
  revision: string,
  chosen: readonly Comparison[],
  stores: Stores,
  rounds: Rounds,
  signal: AbortSignal,
): Promise<string> {
  const { folder: earlier } = await buildRevision(revision, join(stores.folder, 'revision'))
  return measureAll(chosen, header, async comparison => {
    const { title, request, connections = 64, closing = false, rows = 1, burst } = comparison
    const starts = [earlier, undefined].map(build => async () => {
      const databaseUrl = await stores.createPopulated(USERS)
      // A new database admits no version that appends no events.
      await executeOn(databaseUrl, 'UPDATE schema_info SET min_code_version = 2')
      const { redisUrl, folder } = stores
      return startServer('service', { databaseUrl, redisUrl, folder, workers: 1, build })
    })
    const measured = await withServers(starts, async servers => {
      const workers = servers.map(({ url, pid }) => ({ url, pid: childOf(pid()), costsUs: [] as number[] }))
      async function run(load: Load): ReturnType<typeof runWrk> {
        const worker = workers.find(({ url }) => url === load.url)
        const beforeUs = cpuUs(worker?.pid)
        const figures = await runWrk(load, signal)
        const requests = figures.requestsPerSecond * load.seconds
        worker?.costsUs.push((cpuUs(worker.pid) - beforeUs) / requests)
        return figures
      }
      const loads = workers.map(({ url }) => ({ url, request, users: USERS, connections, closing, burst }))
      const figures = await measureInterleaved(loads, rounds, signal, run)
      return figures.map(({ requestsPerSecond }, index) => ({
        perSecond: requestsPerSecond * rows,
        // The first cost is that of the warm-up.
        costUs: median(workers[index]?.costsUs.slice(1) ?? []) / rows,
      }))
    })
    await stores.clear()
    const [before, now] = measured
    if (before === undefined || now === undefined) throw new Error('one of the servers was not measured')
    const formatUs = (us: number) => us.toFixed(us < 10 ? 1 : 0)
    return [
      [
        title,
        ...[
          formatRate(before.perSecond),
          formatRate(now.perSecond),
          formatRatio(now.perSecond / before.perSecond),
        ],
        ...[formatUs(before.costUs), formatUs(now.costUs), formatRatio(now.costUs / before.costUs)],
      ],
    ]
  })
}
