// A client whose types are made from the document: it compiles under strict, and does the README's tour.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { runToEnd } from '../support/run-to-end.ts'
import { startService } from '../support/service.ts'

const folder = fileURLToPath(new URL('.', import.meta.resolve('users-api-client/package.json')))

/** Runs one of the client's tools, or what it has made; gives what it printed. @throws Error where it fails */
async function run(...command: [string, ...string[]]): Promise<string> {
  const [program, ...args] = command
  const { code, stdout, stderr } = await runToEnd(program, args, process.env, folder)
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}:\n${stdout}${stderr}`)
  return stdout
}

const parse = (text: string): unknown =>
  JSON.parse(text, (key, value) => (key === 'request_id' ? 'another each time' : value))

/** The answers of the API that the README's tour shows. */
async function shownAnswers(): Promise<unknown[]> {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8')
  const tour = readme.split('\n## ').find(section => section.startsWith('A tour\n')) ?? ''
  const steps = tour.split('```sh\n').filter(step => /^curl \S+ '?localhost:\d+\/v1\//.test(step))
  return steps.map(step => parse(/```json\n(.*?)\n```/s.exec(step)?.[1] ?? ''))
}

test('the tour of the README, with a typed client', async t => {
  const service = await startService()
  t.teardown(() => service.stop())
  const document = `${service.url}/v1/openapi.json`
  await run('npx', '--no', '--', 'openapi-typescript', document, '--output', 'dist/api.d.ts')
  await run('npx', '--no', '--', 'tsc')
  const printed = await run('node', 'dist/tour.js', service.url)
  const answers = await shownAnswers()
  t.is(answers.length, 6)
  t.deepEqual(printed.trim().split('\n').map(parse), answers)
})
