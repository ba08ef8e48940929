// The service and its opponents side by side: one comparison on a fresh database, and the table of all.
import { assertAgreement } from './agreement.ts'
import type { Comparison } from './comparisons.ts'
import { contest, type Effort } from './contest.ts'
import { startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { formatMs, formatRate, formatRatio, markdownTable } from './table.ts'

const USERS = 1000

const head = ['', 'server', 'requests/s', 'p99, ms', 'the service is', 'aim']

/** Gives the comparison's rows of the table. */
async function compare(
  comparison: Comparison,
  stores: Stores,
  effort: Effort,
  signal: AbortSignal,
): Promise<string[][]> {
  const { title, request, against, connections = 64, workers = 1, closing = false, rows = 1 } = comparison
  const databaseUrl = await stores.createPopulated(USERS)
  const surroundings = { databaseUrl, redisUrl: stores.redisUrl, folder: stores.folder, workers }
  const names = ['service', ...against.map(opponent => opponent.server)] as const
  const figures = await withServers(
    names.map(name => () => startServer(name, surroundings)),
    async servers => {
      await assertAgreement(comparison, servers, USERS)
      const load = { request, users: USERS, connections, closing }
      return contest(
        servers.map(({ url }) => ({ ...load, url })),
        effort,
        signal,
      )
    },
  )
  await stores.clear()
  const [service, ...others] = figures.map(one => ({ ...one, perSecond: one.requestsPerSecond * rows }))
  if (service === undefined) throw new Error('nothing was measured')
  return [
    [title, 'service', formatRate(service.perSecond), formatMs(service.p99Ms), '', ''],
    ...others.map(({ perSecond, p99Ms }, index) => {
      const { server = '', aim } = against[index] ?? {}
      const ratio = formatRatio(service.perSecond / perSecond)
      return [
        '',
        server,
        formatRate(perSecond),
        formatMs(p99Ms),
        ratio,
        aim === undefined ? '' : formatRatio(aim),
      ]
    }),
  ]
}

/** Runs the comparisons one after the other; gives the table as Markdown. */
export async function compareAll(
  chosen: readonly Comparison[],
  stores: Stores,
  effort: Effort,
  signal: AbortSignal,
): Promise<string> {
  const rows = [head]
  for (const comparison of chosen) {
    console.log(`${comparison.name}: ${comparison.title} …`)
    const measured = await compare(comparison, stores, effort, signal)
    console.log(measured.map(cells => `  ${cells.slice(1).join('  ')}`).join('\n'))
    rows.push(...measured)
  }
  return markdownTable(rows)
}
