// Measures the service under several versions of Node, in interleaved rounds.
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runProgram } from '../../src/cli/private-servers/run-program.ts'
import { measureAll } from './compare.ts'
import type { Comparison } from './comparisons.ts'
import { measureInterleaved, type Rounds } from './interleaved.ts'
import { startServer, withServers } from './servers.ts'
import type { Stores } from './stores.ts'
import { formatRate, formatRatio } from './table.ts'

const VERSIONS = ['20', '24', '26']
const USERS = 1000
const getNode = fileURLToPath(new URL('../../.ci/get-node', import.meta.url))
const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'users-api')

/** The programs of the versions. A version that cannot be installed is skipped, with a message. */
async function installNodes(): Promise<string[]> {
  const nodes: string[] = []
  for (const version of VERSIONS)
    try {
      const isCurrent = process.versions.node.startsWith(`${version}.`)
      const folder = isCurrent ? '' : await runProgram(getNode, [version, join(cache, `node-${version}`)])
      nodes.push(isCurrent ? process.execPath : join(folder.trim(), 'node'))
    } catch (error) {
      console.log(
        `skipped: Node ${version} cannot be installed: ${error instanceof Error ? error.message : error}`,
      )
    }
  return nodes
}

/** @returns the table as Markdown; its ratios compare with the first version */
export async function measureVersions(
  chosen: readonly Comparison[],
  stores: Stores,
  rounds: Rounds,
  signal: AbortSignal,
): Promise<string> {
  const nodes = await installNodes()
  const versions = await Promise.all(nodes.map(node => runProgram(node, ['--version'])))
  const header = ['request', ...versions.map(version => `Node ${version.trim().slice(1)}, requests/s`)]
  return measureAll(chosen, header, async ({ title, request, connections = 64 }) => {
    const databaseUrl = await stores.createPopulated(USERS)
    const settings = { databaseUrl, redisUrl: stores.redisUrl, folder: stores.folder, workers: 1 }
    const figures = await withServers(
      nodes.map(node => () => startServer('service', { ...settings, node: [node] })),
      servers => {
        const load = { request, users: USERS, connections, closing: false }
        const loads = servers.map(({ url }) => ({ ...load, url }))
        return measureInterleaved(loads, rounds, signal)
      },
    )
    await stores.clear()
    const rates = figures.map(one => one.requestsPerSecond)
    const cells = rates.map((rate, index) => {
      const ratio = index === 0 ? '' : ` (${formatRatio(rate / (rates[0] ?? Number.NaN))})`
      return `${formatRate(rate)}${ratio}`
    })
    return [[title, ...cells]]
  })
}
