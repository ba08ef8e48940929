// npm run bench -- [name …|scale] [--rounds 5] [--seconds 5] [--users 1000000] [--write]: the benchmarks, and their table;
// --write puts it into the README.
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { compareAll } from './compare.ts'
import { comparisons } from './comparisons.ts'
import { measureScale } from './scale.ts'
import { withStores } from './stores.ts'
import { writeBetweenMarkers } from './table.ts'
import { assertWrk } from './wrk.ts'

const readme = new URL('../../README.md', import.meta.url)
const names = comparisons.map(comparison => comparison.name)

const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => interrupted.abort(new Error('interrupted')))

/** @throws Error where it is none */
function positiveInteger(option: string, text: string): number {
  if (!/^[1-9][0-9]{0,8}$/.test(text)) throw new Error(`--${option} must be a positive integer`)
  return Number(text)
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
  const scale = positionals.includes('scale')
  const unknown = positionals.filter(name => name !== 'scale' && !names.includes(name))
  if (unknown.length > 0)
    throw new Error(`there is no ${unknown.join()}: choose of ${names.join(', ')} or scale`)
  if (values.write && !scale && positionals.length > 0) throw new Error('--write needs the whole table')
  const chosen =
    positionals.length === 0 ? comparisons : comparisons.filter(({ name }) => positionals.includes(name))
  const effort = {
    rounds: positiveInteger('rounds', values.rounds),
    seconds: positiveInteger('seconds', values.seconds),
  }
  return { scale, chosen, effort, users: positiveInteger('users', values.users), write: values.write }
}

async function main(): Promise<void> {
  const { scale, chosen, effort, users, write } = readCommandLine()
  await assertWrk()
  const text = await withStores(async stores => {
    const table = scale
      ? await measureScale(users, stores, effort, interrupted.signal)
      : await compareAll(chosen, stores, effort, interrupted.signal)
    const medians = `medians of ${effort.rounds} rounds of ${effort.seconds} s`
    return `${table}\n\nNode ${process.versions.node}, ${stores.title}, ${cpus().length} cores, ${medians}.`
  })
  console.log(`\n${text}`)
  if (write) await writeBetweenMarkers(readme, scale ? 'scale' : 'bench', text)
}

main().catch(error => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
})
