// npm run bench -- [name …|scale|feed|footprint|load|versions|profile|revision] [--rounds 5] [--seconds 5] [--users 1000000]
//   [--from revision] [--write]
// Runs the benchmarks and prints a table. --write also writes the table to test/bench/README.md.
import { setMaxListeners } from 'node:events'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { useProjectSettings } from '../support/project-settings.ts'
import { compareAll } from './compare.ts'
import { type Comparison, comparisons } from './comparisons.ts'
import { measureFeed } from './feed.ts'
import { measureFootprint } from './footprint.ts'
import { measureLoad } from './load.ts'
import { installPlatformatic, platformaticTitle } from './platformatic.ts'
import { measureProfile } from './profile.ts'
import { measureRevision } from './revision.ts'
import { measureScale } from './scale.ts'
import { withStores } from './stores.ts'
import { writeBetweenMarkers } from './table.ts'
import { measureVersions } from './versions.ts'
import { assertWrk } from './wrk.ts'

const readme = new URL('README.md', import.meta.url)
/** Benchmarks with a separate table. */
const tables = ['scale', 'feed', 'footprint', 'load', 'versions', 'profile', 'revision']
const LOAD_SECONDS = 60
/** The comparisons whose requests these tables measure by default. */
const requestsOf: Readonly<Record<string, readonly string[]>> = {
  load: ['get', 'page', 'post', 'patch'],
  versions: ['get', 'page', 'post', 'patch'],
  profile: ['get', 'post'],
  revision: ['get', 'page', 'post', 'patch', 'batch'],
}
const names = comparisons.map(comparison => comparison.name)

const interrupted = new AbortController()
// Each server that a benchmark starts listens for it.
setMaxListeners(0, interrupted.signal)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => interrupted.abort(new Error('interrupted')))

/** @throws Error if `text` is not a positive integer */
function positiveInteger(option: string, text: string): number {
  if (!/^[1-9][0-9]{0,8}$/.test(text))
    throw new Error(`--${option} must be a positive integer of at most 9 digits`)
  return Number(text)
}

const usesPlatformatic = ({ baselines }: Comparison) => baselines.some(one => one.server === 'platformatic')

/** Skips the comparison with Platformatic DB, with a message, if it cannot be installed. */
async function installable(chosen: readonly Comparison[]): Promise<readonly Comparison[]> {
  if (!chosen.some(usesPlatformatic)) return chosen
  try {
    await installPlatformatic()
    return chosen
  } catch (error) {
    const reason = error instanceof Error ? error.message : error
    console.log(`skipped: ${platformaticTitle} cannot be installed: ${reason}`)
    return chosen.filter(comparison => !usesPlatformatic(comparison))
  }
}

function readCommandLine() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '5' },
      users: { type: 'string', default: '1000000' },
      from: { type: 'string', default: 'HEAD' },
      write: { type: 'boolean', default: false },
    },
  })
  const table = tables.find(name => positionals.includes(name)) ?? 'bench'
  const unknown = positionals.filter(name => ![...tables, ...names].includes(name))
  if (unknown.length > 0)
    throw new Error(
      `unknown benchmark: ${unknown.join(', ')}; the benchmarks are ${[...names, ...tables].join(', ')}`,
    )
  const selected = positionals.filter(name => names.includes(name))
  if (values.write && selected.length > 0)
    throw new Error(`--write needs the complete table: remove ${selected.join(', ')}`)
  const wanted = selected.length > 0 ? selected : (requestsOf[table] ?? names)
  const chosen = comparisons.filter(({ name }) => wanted.includes(name))
  const rounds = {
    count: positiveInteger('rounds', values.rounds),
    seconds: positiveInteger('seconds', values.seconds),
  }
  const { from, write } = values
  return { table, chosen, rounds, users: positiveInteger('users', values.users), from, write }
}

async function main(): Promise<void> {
  const { table, chosen, rounds, users, from, write } = readCommandLine()
  await assertWrk()
  const text = await withStores(users, async stores => {
    // An earlier revision may not know the settings of this one.
    if (table !== 'revision') await useProjectSettings(join(stores.folder, 'config'))
    const environment = `Node ${process.versions.node}, ${stores.title}, ${cpus().length} cores`
    const medians = `medians of ${rounds.count} × ${rounds.seconds} s`
    const { signal } = interrupted
    switch (table) {
      case 'feed':
        return `${await measureFeed(stores, rounds, signal)}\n\n${environment}, ${rounds.count} × ${rounds.seconds} s.`
      case 'footprint':
        return `${await measureFootprint(stores, LOAD_SECONDS, signal)}\n\n${environment}.`
      case 'scale':
        return `${await measureScale(users, stores, rounds, signal)}\n\n${environment}, ${medians}.`
      case 'load':
        return `${await measureLoad(chosen, stores, rounds, signal)}\n\n${environment}, ${medians}.`
      case 'versions':
        return `${await measureVersions(chosen, stores, rounds, signal)}\n\n${stores.title}, ${cpus().length} cores, ${medians}.`
      case 'revision':
        return `${await measureRevision(from, chosen, stores, rounds, signal)}\n\nFrom ${from}. ${environment}, ${medians}.`
      case 'profile':
        return `${await measureProfile(chosen, stores, rounds.seconds, signal)}\n\n${environment}, ${rounds.seconds} s each.`
    }
    const measurable = await installable(chosen)
    const others = measurable.some(usesPlatformatic) ? `, ${platformaticTitle}` : ''
    return `${await compareAll(measurable, stores, rounds, signal)}\n\n${environment}${others}, ${medians}.`
  })
  console.log(`\n${text}`)
  if (write) await writeBetweenMarkers(readme, table === 'scale' ? `scale-${users}` : table, text)
}

main().catch(error => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
})
