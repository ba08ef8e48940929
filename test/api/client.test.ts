// A client with types generated from the OpenAPI document: it compiles in strict mode and runs the tour of the README.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import test from 'ava'
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

/** Returns the API responses in the tour of the README. */
async function documentedResponses(): Promise<unknown[]> {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8')
  const tour = readme.split('\n## ').find(section => section.startsWith('A tour\n')) ?? ''
  const steps = tour.split('```sh\n').filter(step => /^curl \S+ '?localhost:\d+\/v1\//.test(step))
  return steps.map(step => parse(/```json\n(.*?)\n```/s.exec(step)?.[1] ?? ''))
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
    const responses = await documentedResponses()
    t.is(responses.length, 8)
    t.deepEqual(printed.trim().split('\n').map(parse), responses)
  })
