// npm run key: makes a key that a service accepts, and rejects invalid names and scopes. --help of this and other commands.
import { createHash } from 'node:crypto'
import test from 'ava'
import { createClient } from '../support/http.ts'
import { runNode } from '../support/run-to-end.ts'
import { startService } from '../support/service.ts'

const makeKey = (...args: string[]) => runNode('dist/key.js', args)

test('key: the token of the printed entry is accepted; the entry has only the hash', async t => {
  const { code, stdout, stderr } = await makeKey('ci@build-1', 'read')
  t.is(code, 0, stderr)
  const token = /^ {2}([\w-]{43})$/m.exec(stdout)?.[1] ?? ''
  const entry = JSON.parse(/^ {2}(\{.*\})$/m.exec(stdout)?.[1] ?? '')
  const sha256 = createHash('sha256').update(token).digest('hex')
  t.deepEqual(entry, { name: 'ci@build-1', sha256, scope: 'read' })

  const service = await startService({ config: { auth: { keys: [entry] } } })
  t.teardown(() => service.stop())
  const client = createClient(service.url)
  t.teardown(client.close)
  t.is((await client.get('/v1/users', { authorization: `Bearer ${token}` })).status, 200)
  t.is((await client.get('/v1/users', { authorization: `Bearer ${sha256}` })).status, 401)
})

test('key: each key is another one', async t => {
  t.not((await makeKey('a', 'write')).stdout, (await makeKey('a', 'write')).stdout)
})

test('key: an invalid name or scope is a usage error', async t => {
  const cases: [args: string[], message: RegExp][] = [
    [[], /a name and a scope are required/],
    [['ci'], /a name and a scope are required/],
    [['ci', 'read', 'more'], /a name and a scope are required/],
    [['ci', 'admin'], /the scope must be read or write/],
    [['c i', 'read'], /the name must be 1 to 100 letters, digits/],
  ]
  for (const [args, message] of cases) {
    const { code, stdout, stderr } = await makeKey(...args)
    t.deepEqual([code, stdout], [2, ''])
    t.regex(stderr, message)
    t.regex(stderr, /usage: npm run key -- NAME read\|write/)
  }
})

test('--help: each command says what it does', async t => {
  for (const command of ['start', 'stop', 'migrate', 'recount', 'expire-changes', 'key', 'load', 'ops']) {
    const { code, stdout, stderr } = await runNode(`dist/${command}.js`, ['--help'])
    t.deepEqual([code, stderr], [0, ''])
    t.regex(stdout, new RegExp(`^usage: npm (run )?${command}\\b.*\n\n {2}\\w`))
  }
})
