// A client with types generated from the OpenAPI document: it compiles in strict mode and runs the tour of the README.
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { sectionOf, stepsOf } from '../support/documents.ts'
import { apiKey } from '../support/issuer.ts'
import { runToEnd } from '../support/run-to-end.ts'
import { startService } from '../support/service.ts'

const folder = fileURLToPath(new URL('.', import.meta.resolve('users-api-client/package.json')))

/** Runs a command in the folder of the client and returns its standard output. @throws Error if the exit code is not 0 */
async function run(...command: [string, ...string[]]): Promise<string> {
  const [program, ...args] = command
  const { code, stdout, stderr } = await runToEnd(program, args, process.env, folder)
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

const token = 'writer-token'
const keys = [apiKey('writer', 'write', token)]

for (const [api, auth] of [
  ['an open API', { keys: [] }],
  ['an API with callers', { keys }],
] as const)
  test.serial(`typed client: runs the tour of the README on ${api}`, async t => {
    const service = await startService({ config: { auth } })
    t.teardown(() => service.stop())
    const document = `${service.url}/v1/openapi.json`
    await run('npx', '--no', '--', 'openapi-typescript', document, '--output', 'dist/api.d.ts')
    await run('npx', '--no', '--', 'tsc')
    const printed = await run('node', 'dist/tour.js', service.url, token)
    const responses = documentedResponses()
    t.is(responses.length, 8)
    t.deepEqual(printed.trim().split('\n').map(parse), responses)
  })
