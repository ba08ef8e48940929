// Entry point of `npm run load`: imports users and groups from a file through the API and prints each failure with its
// reason. Existing records are left unchanged, so the command can be repeated.
import { extname } from 'node:path'
import { parseArgs } from 'node:util'
import { print, runCommand, serviceName, UsageError } from './cli/command-line.ts'
import { createApi } from './cli/import/api-client.ts'
import { readCsv } from './cli/import/csv.ts'
import { createImportProgress, type Tallies } from './cli/import/import-progress.ts'
import { load } from './cli/import/importer.ts'
import { readJson } from './cli/import/json.ts'
import type { Source } from './cli/import/source.ts'
import { dataUrl, directPort } from './cli/urls.ts'
import { apiToken, loadConfig } from './config/config.ts'
import { reasonOf } from './core/error-reason.ts'
import { exitCodes, FatalError } from './core/exit-codes.ts'

const usage = `usage: npm run load -- FILE.json|FILE.csv [--url URL] [--patience SECONDS]

  FILE.json    {"groups": ["Poets"], "users": [{"first_name": "Ada", "last_name": "Lovelace", "groups": ["Poets"]}]}
  FILE.csv     first line: first_name,last_name,groups; several groups are separated by ;
               semicolons or tabs can also separate the columns, as in files from spreadsheets
  --url        URL of the service; default: the first port without proxyProtocol in the settings of this folder
  --patience   number of seconds to wait for an unavailable service; default: 60

environment: USERS_API_TOKEN is the API key or the JWT, if the service requires one; it needs the scope write

exit codes: 0 everything is loaded, 1 some entries failed, 2 usage error, 65 invalid file, 69 service unavailable,
            77 the service does not accept the token, 78 invalid settings, 130 interrupted`

/** @throws UsageError that does not repeat a password */
function assertServiceUrl(text: string): void {
  if (!(URL.canParse(text) && /^https?:\/\//.test(text)))
    throw new UsageError('--url must be a URL such as http://localhost:8000')
  const { username, password } = new URL(text)
  if (username !== '' || password !== '')
    throw new UsageError('--url must not contain a user or a password: USERS_API_TOKEN has the token')
}

function readCommandLine() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { url: { type: 'string' }, patience: { type: 'string', default: '60' } },
  })
  const [file, ...more] = positionals
  const { url, patience } = values
  if (file === undefined) throw new UsageError()
  if (more.length > 0) throw new UsageError('only one file can be loaded at a time')
  if (!/^[0-9]{1,6}$/.test(patience)) throw new UsageError('--patience must be a whole number of seconds')
  if (url !== undefined) assertServiceUrl(url)
  return { file, url, timeoutMs: Number(patience) * 1000 }
}

async function defaultUrl(): Promise<string> {
  const config = await loadConfig()
  const port = directPort(config)
  if (port === undefined)
    throw new UsageError('every port expects the PROXY protocol: set --url to the URL of a proxy')
  return dataUrl(config, port)
}

/**
 * Opens a file in the format that its name extension indicates.
 * @throws Error with the file and, for a fault in its content, the line
 */
async function openSource(file: string): Promise<Source> {
  const type = extname(file).toLowerCase()
  if (type !== '.json' && type !== '.csv')
    throw new Error(`${file} must end in .json or .csv: save a spreadsheet as CSV`)
  try {
    return await (type === '.json' ? readJson(file) : readCsv(file))
  } catch (error) {
    throw new Error(`${file}: ${reasonOf(error)}`)
  }
}

function describe(tallies: Tallies): string {
  const lines = Object.entries(tallies).map(
    ([what, { created, unchanged, failed }]) =>
      `  ${what.padEnd(12)}${created} created, ${unchanged} unchanged, ${failed} failed`,
  )
  return lines.join('\n')
}

async function main(): Promise<number> {
  const options = readCommandLine()
  const url = options.url ?? (await defaultUrl())
  const token = apiToken()
  const progress = createImportProgress(process.stderr)
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      progress.end()
      console.error(`${serviceName}: interrupted: run the command again to continue`)
      process.exit(exitCodes.interrupted)
    })
  try {
    const source = await openSource(options.file)
    const api = createApi(url, options.timeoutMs, progress.waiting, token)
    await api.assertReachable()
    const tallies = await load(source, api, progress)
    progress.end()
    const { users } = tallies
    if (users.created + users.unchanged + users.failed === 0)
      console.error(`${serviceName}: ${options.file} contains no users`)
    const failed = Object.values(tallies).some(tally => tally.failed > 0)
    print(
      `loaded ${options.file} into ${url}${failed ? ', except for the failures above' : ''}\n${describe(tallies)}`,
    )
    return failed ? 1 : 0
  } catch (error) {
    progress.end()
    if (error instanceof FatalError) throw error
    throw new FatalError(exitCodes.invalidFile, reasonOf(error))
  }
}

process.exit(await runCommand(main, usage))
