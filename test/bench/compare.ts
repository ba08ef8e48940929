// Runs the comparisons of the service with the baseline servers, and formats the table.
import { searchColumn } from '../../src/database/reading/search.ts'
import { users } from '../../src/model/users.ts'
import { executeOn } from '../support/execute.ts'
import type { Comparison } from './comparisons.ts'
import { measureInterleaved, type Rounds } from './interleaved.ts'
import { assertSameResponses } from './same-responses.ts'
import { startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { formatMs, formatRate, formatRatio, markdownTable } from './table.ts'
import { runTlsConnections, writeCertificate } from './tls-connections.ts'
import { runWrk } from './wrk.ts'

const USERS = 1000

const header = ['request', 'server', 'requests/s', 'p99, ms', 'service ÷ server']

/** Removes the columns and indexes of the search from a database. */
async function removeSearch(databaseUrl: string): Promise<void> {
  const { plural: table, fields } = users
  const drops = Object.keys(fields)
    .map(searchColumn)
    .map(column => `DROP KEY ${table}_${column}, DROP COLUMN ${column}`)
  await executeOn(databaseUrl, `ALTER TABLE ${table} ${drops.join(', ')}`)
}

/** Returns the table rows of one comparison. */
async function compare(
  comparison: Comparison,
  stores: Stores,
  rounds: Rounds,
  signal: AbortSignal,
): Promise<string[][]> {
  const { title, request, baselines, connections = 64, workers = 1, rows = 1 } = comparison
  const { closing = false, tls = false, burst } = comparison
  const { redisUrl, folder } = stores
  const certificate = tls ? await writeCertificate(folder) : undefined
  const settings = { redisUrl, folder, workers, certificate }
  const names = ['service', ...baselines.map(baseline => baseline.server)] as const
  const figures = await withServers(
    // Each server has its own database, so that the rows of the others do not make its tables larger.
    names.map(name => async () => {
      const databaseUrl = await stores.createPopulated(USERS)
      if (name === 'no-search') await removeSearch(databaseUrl)
      return startServer(name, { ...settings, databaseUrl })
    }),
    async servers => {
      await assertSameResponses(comparison, servers, USERS)
      const load = { request, users: USERS, connections, closing, burst }
      return measureInterleaved(
        servers.map(({ url, headers }) => ({ ...load, url, headers })),
        rounds,
        signal,
        tls ? runTlsConnections : runWrk,
      )
    },
  )
  await stores.clear()
  const [service, ...others] = figures.map(one => ({ ...one, perSecond: one.requestsPerSecond * rows }))
  if (service === undefined) throw new Error('nothing was measured')
  return [
    [title, 'service', formatRate(service.perSecond), formatMs(service.p99Ms), ''],
    ...others.map(({ perSecond, p99Ms }, index) => {
      const { server = '' } = baselines[index] ?? {}
      const ratio = formatRatio(service.perSecond / perSecond)
      return ['', server, formatRate(perSecond), formatMs(p99Ms), ratio]
    }),
  ]
}

/**
 * Measures in sequence, and prints the figures as soon as they are known.
 * @param measure returns the rows of one comparison; their first cell is its title or empty
 * @returns the table as Markdown
 */
export async function measureAll(
  chosen: readonly Comparison[],
  header: readonly string[],
  measure: (comparison: Comparison) => Promise<string[][]>,
): Promise<string> {
  const rows = [header]
  for (const comparison of chosen) {
    console.log(`${comparison.name}: ${comparison.title} …`)
    const measured = await measure(comparison)
    console.log(measured.map(cells => `  ${cells.slice(1).join('  ')}`).join('\n'))
    rows.push(...measured)
  }
  return markdownTable(rows)
}

/** Runs the comparisons. @returns the table as Markdown */
export const compareAll = (
  chosen: readonly Comparison[],
  stores: Stores,
  rounds: Rounds,
  signal: AbortSignal,
): Promise<string> => measureAll(chosen, header, comparison => compare(comparison, stores, rounds, signal))
