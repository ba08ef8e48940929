// Entry of `npm run load`: people and groups of a file come in through the API. It says what failed and why, and can be
// run again: what is there already stays as it is.
import { parseArgs } from 'node:util'
import { print, runCommand } from './cli/command-line.ts'
import { AwayError, createApi } from './cli/import/api-client.ts'
import { openSource } from './cli/import/import-file.ts'
import { createImportProgress } from './cli/import/import-progress.ts'
import { load, type Tallies } from './cli/import/importer.ts'
import type { Source } from './cli/import/source.ts'
import { dataUrl } from './cli/urls.ts'
import { loadConfig } from './config/config.ts'

const exitCodes = { done: 0, someFailed: 1, usage: 2, badFile: 65, away: 69, interrupted: 130 } as const

const usage = `usage: npm run load -- FILE.json|FILE.csv [--url URL] [--patience SECONDS]

  FILE.json    {"groups": ["Poets"], "users": [{"first_name": "Ada", "last_name": "Lovelace", "groups": ["Poets"]}]}
  FILE.csv     first_name,last_name,groups in the first line; several groups are separated by ;
               a spreadsheet's semicolons or tabs are as good as commas
  --url        of the service; the first port of this folder's settings unless given
  --patience   how long to wait for a service that is away: 60 unless given

exit codes: 0 all is there, 1 some failed, 2 usage, 65 a fault in the file, 69 the service is away, 130 interrupted`

function readCommandLine() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { url: { type: 'string' }, patience: { type: 'string', default: '60' } },
    })
    const [file, ...more] = positionals
    const { url, patience } = values
    if (file === undefined || more.length > 0 || !/^[0-9]{1,6}$/.test(patience)) return undefined
    if (url !== undefined && !(URL.canParse(url) && /^https?:\/\//.test(url))) return undefined
    return { file, url, patienceMs: Number(patience) * 1000 }
  } catch {
    return undefined
  }
}

async function defaultUrl(): Promise<string> {
  const config = await loadConfig()
  const [first] = config.ports
  if (first === undefined) throw new Error('the settings have no port: name one with --url')
  return dataUrl(config, first)
}

function describe(tallies: Tallies): string {
  const lines = Object.entries(tallies).map(
    ([what, { created, unchanged, failed }]) =>
      `  ${what.padEnd(12)}${created} created, ${unchanged} unchanged, ${failed} failed`,
  )
  return lines.join('\n')
}

async function main(): Promise<number> {
  const asked = readCommandLine()
  if (asked === undefined) {
    console.error(usage)
    return exitCodes.usage
  }
  const url = asked.url ?? (await defaultUrl())
  const progress = createImportProgress(process.stderr)
  process.once('SIGINT', () => {
    progress.end()
    console.error('users-api: interrupted; run it again, it goes on')
    process.exit(exitCodes.interrupted)
  })
  try {
    const source: Source = await openSource(asked.file)
    const api = createApi(url, asked.patienceMs, progress.waiting)
    await api.assertThere()
    const tallies = await load(source, api, progress)
    progress.end()
    const { created, unchanged, failed: lost } = tallies.people
    if (created + unchanged + lost === 0) console.error(`users-api: there is nobody in ${asked.file}`)
    const failed = Object.values(tallies).some(tally => tally.failed > 0)
    print(
      `${asked.file} is loaded into ${url}${failed ? ', save for the failures above' : ''}\n${describe(tallies)}`,
    )
    return failed ? exitCodes.someFailed : exitCodes.done
  } catch (error) {
    progress.end()
    const message = error instanceof Error ? error.message : String(error)
    if (error instanceof AwayError) {
      console.error(`users-api: ${message}`)
      return exitCodes.away
    }
    console.error(`users-api: ${message}`)
    return exitCodes.badFile
  }
}

process.exit(await runCommand(main))
