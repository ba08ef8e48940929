// The log, when nobody reads it any more.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import test from 'ava'

const log = fileURLToPath(new URL('../src/log.ts', import.meta.url))

// More than the reader takes off the socket unasked: what is unread when it goes makes the next write fail with
// ECONNRESET, the ones after that with EPIPE.
const unread = 120_000

const script = `
  import { createLog } from ${JSON.stringify(log)}
  const log = createLog('info', 'test')
  process.stdin.once('data', () => {
    log.info('one')
    log.info('two')
    process.exit(7)
  })
  log.info('x'.repeat(${unread}))
  console.error('ready')`

test('a process whose reader has gone can still log, and end', async t => {
  const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', script])
  t.teardown(() => child.kill('SIGKILL'))
  await once(child.stderr, 'data')
  child.stdout.destroy()
  await once(child.stdout, 'close')
  child.stdin.write('go')
  t.deepEqual(await once(child, 'exit'), [7, null])
})

test('an event is one line of JSON', async t => {
  const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', script])
  t.teardown(() => child.kill('SIGKILL'))
  child.stdin.write('go')
  let text = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) text += chunk
  const events = text
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  t.deepEqual(
    events.map(({ level, role, msg }) => [level, role, msg.slice(0, 3)]),
    ['xxx', 'one', 'two'].map(msg => [30, 'test', msg]),
  )
})
