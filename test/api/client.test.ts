// Clients generated from the OpenAPI document: they compile in strict mode and run the tour of the README.
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { sectionOf, stepsOf } from '../support/documents.ts'
import { apiKey } from '../support/issuer.ts'
import { runToEnd } from '../support/run-to-end.ts'
import { startService } from '../support/service.ts'

const folder = fileURLToPath(new URL('.', import.meta.resolve('users-api-client/package.json')))

/** The compiler of this project. The generators bring an earlier one, which takes six times as long. */
const tsc = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url))

/** Finds the programs of the client's packages. npx would cost more CPU time than some of them. */
const bin = [join(folder, 'node_modules/.bin'), process.env.PATH].join(delimiter)

/** Runs a command in the folder of the client and returns its standard output. @throws Error if the exit code is not 0 */
async function run(...command: [string, ...string[]]): Promise<string> {
  const [program, ...args] = command
  const { code, stdout, stderr } = await runToEnd(program, args, { ...process.env, PATH: bin }, folder)
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}:\n${stdout}${stderr}`)
  return stdout
}

const parse = (text: string): unknown =>
  JSON.parse(text, (key, value) => (key === 'request_id' ? 'differs between responses' : value))

/** Returns the responses of the API that a section shows. */
const responsesIn = (path: string, section: string): unknown[] =>
  stepsOf(sectionOf(path, section))
    .filter(({ commands }) => /^curl \S+ '?localhost:\d+\/v1\//.test(commands))
    .map(({ output = '' }) => parse(output))

/** Returns the responses in the client's order: it lists the members of a group before the last step of the tour. */
function documentedResponses(): unknown[] {
  const members = responsesIn('src/api/README.md', 'Members of a group')
  return responsesIn('README.md', 'A tour').toSpliced(-1, 0, ...members)
}

/** What the client does after the tour: it changes, finds and deletes the user with the requests for many records. */
const king = { id: 1, first_name: 'Ada', last_name: 'King', meta: { status: 200 } }
const responsesAfterTour: readonly unknown[] = [
  { users: [king], meta: { status: 200, message: '1 of 1 updated, 0 failed', updated: 1, failed: 0 } },
  {
    users: [king],
    meta: {
      status: 200,
      message: '1 of 1 records',
      total_records: 1,
      start_index: 0,
      records_per_page: 100,
      links: {},
    },
  },
  [{ type: 'user.updated', user_id: 1 }],
  {
    users: [{ id: 1, meta: { status: 200, message: 'user 1 deleted' } }],
    meta: { status: 200, message: '1 of 1 deleted, 0 failed', deleted: 1, failed: 0 },
  },
]

const token = 'writer-token'
const keys = [apiKey('writer', 'write', token)]

const open = { name: 'an open API', auth: { keys: [] } }
const closed = { name: 'an API with callers', auth: { keys } }

/** The command that generates a client from the document at `url`, the configuration of its compilation, and the tour. */
const openapiFetch = {
  name: 'openapi-fetch',
  generate: (url: string) => run('openapi-typescript', url, '--output', 'dist/api.d.ts'),
  config: 'tsconfig.json',
  tour: 'dist/tour.js',
}
const heyApi = {
  name: 'hey-api',
  generate: (url: string) => run('openapi-ts', '--input', url, '--output', 'dist/hey-api'),
  config: 'tsconfig.hey-api.json',
  tour: 'dist/tour-hey-api.js',
}

for (const [client, api] of [
  [openapiFetch, open],
  [openapiFetch, closed],
  [heyApi, closed],
] as const)
  test.serial(`typed client: ${client.name} runs the tour of the README on ${api.name}`, async t => {
    const service = await startService({ config: { auth: api.auth } })
    t.teardown(() => service.stop())
    await client.generate(`${service.url}/v1/openapi.json`)
    await run(tsc, '--project', client.config)
    const printed = await run(process.execPath, client.tour, service.url, token)
    const responses = documentedResponses()
    t.is(responses.length, 8)
    t.deepEqual(printed.trim().split('\n').map(parse), [...responses, ...responsesAfterTour])
  })
