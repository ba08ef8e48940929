// The log, when nobody reads it any more.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { createOutput } from '../../../src/core/log-output.ts'

const log = fileURLToPath(new URL('../../../src/core/log.ts', import.meta.url))

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

const failing = `
  import { createLog } from ${JSON.stringify(log)}
  const log = createLog('info', 'test')
  log.error({ reason: new TypeError('broken', { cause: new Error('within') }) })
  const sql = "insert into users values ('Secret')"
  log.error({ reason: Object.assign(new Error(sql + ' - no'), { code: 'ER_X', sql, sqlMessage: 'no' }) })
  log.error({ reason: 'a word' })`

test('an error is logged whole, save for statements of SQL', async t => {
  const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', failing])
  t.teardown(() => child.kill('SIGKILL'))
  let text = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) text += chunk
  const [broken, refused, word] = text
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line).reason)
  t.like(broken, { name: 'TypeError', message: 'broken', cause: { message: 'within' } })
  t.regex(broken.stack, /at /)
  t.deepEqual(refused, { name: 'Error', code: 'ER_X', message: 'no' })
  t.is(word, 'a word')
  t.notRegex(text, /Secret/)
})

const often = `
  import { createLogAndOutput } from ${JSON.stringify(log)}
  const { log, soon } = createLogAndOutput('info', 'test')
  for (let i = 0; i < 100; i++) soon.write(JSON.stringify({ i }) + '\\n')
  log.error('now')
  soon.write('{"msg": "last"}\\n')
  process.stdin.once('data', () => process.exit(0))`

test('what is said often is written before what is said after it, and at the end of the process', async t => {
  const child = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', often])
  t.teardown(() => child.kill('SIGKILL'))
  let text = ''
  child.stdout.setEncoding('utf8').on('data', chunk => (text += chunk))
  while (!text.includes('"now"')) await once(child.stdout, 'data')
  child.stdin.write('go')
  await once(child.stdout, 'close')
  const events = text
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  t.deepEqual(
    events.map(({ msg, i }) => i ?? msg),
    [...Array(100).keys(), 'now', 'last'],
  )
})

test('pieces are of whole lines, and small enough not to be torn; without a reader they are dropped and counted', async t => {
  const pieces: string[] = []
  let read = (): void => {}
  const stream = new Writable({
    decodeStrings: false,
    write(piece, _encoding, done) {
      pieces.push(String(piece))
      // Nobody reads until it is told to.
      read = done
    },
  })
  const counted = new Promise<number>(resolve => {
    const { soon } = createOutput(stream, resolve)
    const line = `${'x'.repeat(199)}\n`
    for (let sent = 0; sent < 30_000; sent++) soon.write(line)
  })
  t.true(stream.writableLength < 1_100_000)
  while (stream.writableLength > 0) {
    read()
    await new Promise(setImmediate)
  }
  const lines = pieces.flatMap(piece => piece.trimEnd().split('\n'))
  for (const piece of pieces) t.true(piece.endsWith('\n') && piece.length <= 32_768)
  // The last piece has not been asked to be written yet.
  t.true(lines.length + (await counted) > 30_000 - 164)
})
