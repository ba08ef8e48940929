// npm run bench -- [name …|scale|footprint] [--rounds 5] [--seconds 5] [--users 1000000] [--write]: the benchmarks, and their table;
// --write puts it into the README.
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { compareAll } from './compare.ts'
import { type Comparison, comparisons } from './comparisons.ts'
import { measureFootprint } from './footprint.ts'
import { installPlatformatic, platformaticTitle } from './platformatic.ts'
import { measureScale } from './scale.ts'
import { withStores } from './stores.ts'
import { writeBetweenMarkers } from './table.ts'
import { assertWrk } from './wrk.ts'

const readme = new URL('../../README.md', import.meta.url)
/** What is measured apart, each into a table of its own. */
const tables = ['scale', 'footprint']
const LOAD_SECONDS = 60
const names = comparisons.map(comparison => comparison.name)

const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => interrupted.abort(new Error('interrupted')))

/** @throws Error where it is none */
function positiveInteger(option: string, text: string): number {
  if (!/^[1-9][0-9]{0,8}$/.test(text)) throw new Error(`--${option} must be a positive integer`)
  return Number(text)
}

const isAgainstPlatformatic = ({ against }: Comparison) => against.some(one => one.server === 'platformatic')

/** Leaves out what cannot be had, and says so. */
async function withoutMissing(chosen: readonly Comparison[]): Promise<readonly Comparison[]> {
  if (!chosen.some(isAgainstPlatformatic)) return chosen
  try {
    await installPlatformatic()
    return chosen
  } catch (error) {
    const reason = error instanceof Error ? error.message : error
    console.log(`left out: ${platformaticTitle} cannot be installed: ${reason}`)
    return chosen.filter(comparison => !isAgainstPlatformatic(comparison))
  }
}

function readCommandLine() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '5' },
      users: { type: 'string', default: '1000000' },
      write: { type: 'boolean', default: false },
    },
  })
  const table = tables.find(name => positionals.includes(name)) ?? 'bench'
  const unknown = positionals.filter(name => ![...tables, ...names].includes(name))
  if (unknown.length > 0)
    throw new Error(`there is no ${unknown.join()}: choose of ${names.join(', ')}, or ${tables.join(' or ')}`)
  if (values.write && table === 'bench' && positionals.length > 0)
    throw new Error('--write needs the whole table')
  const chosen =
    positionals.length === 0 ? comparisons : comparisons.filter(({ name }) => positionals.includes(name))
  const effort = {
    rounds: positiveInteger('rounds', values.rounds),
    seconds: positiveInteger('seconds', values.seconds),
  }
  return { table, chosen, effort, users: positiveInteger('users', values.users), write: values.write }
}

async function main(): Promise<void> {
  const { table, chosen, effort, users, write } = readCommandLine()
  await assertWrk()
  const where = (title: string) => `Node ${process.versions.node}, ${title}, ${cpus().length} cores`
  const medians = `medians of ${effort.rounds} rounds of ${effort.seconds} s`
  const text = await withStores(async stores => {
    if (table === 'footprint')
      return `${await measureFootprint(stores, LOAD_SECONDS, interrupted.signal)}\n\n${where(stores.title)}.`
    if (table === 'scale')
      return `${await measureScale(users, stores, effort, interrupted.signal)}\n\n${where(stores.title)}, ${medians}.`
    const measurable = await withoutMissing(chosen)
    const others = measurable.some(isAgainstPlatformatic) ? `, ${platformaticTitle}` : ''
    const measured = await compareAll(measurable, stores, effort, interrupted.signal)
    return `${measured}\n\n${where(stores.title)}${others}, ${medians}.`
  })
  console.log(`\n${text}`)
  if (write) await writeBetweenMarkers(readme, table, text)
}

main().catch(error => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
})
