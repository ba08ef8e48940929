// The log: its JSON lines, buffered output, and a reader that stops or exits.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import test from 'ava'
import { createTimestamp } from '../../../src/core/log.ts'
import { createOutput } from '../../../src/core/log-output.ts'
import { evalArgs, moduleOf } from '../../support/child-code.ts'
import { folder } from '../../support/folder.ts'
import { collectLog } from '../../support/log.ts'
import { until } from '../../support/until.ts'

const log = moduleOf('core/log')

// More than the reader buffers. If a reader exits with unread data, the next write fails with ECONNRESET and
// later ones with EPIPE.
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

test('log: a process can log and exit after its reader has exited', async t => {
  const child = spawn(process.execPath, [...evalArgs, script])
  t.teardown(() => child.kill('SIGKILL'))
  await once(child.stderr, 'data')
  child.stdout.destroy()
  await once(child.stdout, 'close')
  child.stdin.write('go')
  t.deepEqual(await once(child, 'exit'), [7, null])
})

test('log: an event is one line of JSON', async t => {
  const child = spawn(process.execPath, [...evalArgs, script])
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

const onFullDisk = `
  import { createLog } from ${JSON.stringify(log)}
  const log = createLog('info', 'test')
  process.stdin.once('data', () => log.info('one'))
  log.info('x'.repeat(${unread}))
  log.info('lost')
  console.error('ready')`

test('log: a line that a full disk has cut does not spoil the next one', async t => {
  const path = join(folder(t), 'log')
  const file = await open(path, 'a+')
  t.teardown(() => file.close())
  // A limit of the size of files stands for the full disk. The cache of tsx must not be cut.
  const node = [process.execPath, ...evalArgs, onFullDisk]
  const child = spawn('sh', ['-c', 'ulimit -f 1 && exec "$0" "$@"', ...node], {
    stdio: ['pipe', file.fd, 'pipe'],
    env: { ...process.env, TSX_DISABLE_CACHE: '1' },
  })
  t.teardown(() => child.kill('SIGKILL'))
  if (child.stdin === null || child.stderr === null) throw new Error('the child has no pipes')
  await once(child.stderr, 'data')
  await file.truncate(100)
  child.stdin.end('go')
  await once(child, 'exit')
  const [cut = '', next = ''] = (await readFile(path, 'utf8')).split('\n')
  t.is(cut.length, 100)
  t.like(JSON.parse(next), { msg: 'one' })
})

const failing = `
  import { createLog } from ${JSON.stringify(log)}
  const log = createLog('info', 'test')
  log.error({ reason: new TypeError('broken', { cause: new Error('within') }) })
  const sql = "insert into users values ('Secret')"
  log.error({ reason: Object.assign(new Error(sql + ' - no'), { code: 'ER_X', sql, sqlMessage: 'no' }) })
  log.error({ reason: 'a word' })`

test('log: an error has its stack and cause, but no SQL statement', async t => {
  const child = spawn(process.execPath, [...evalArgs, failing])
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

const buffering = `
  import { createLogAndOutput } from ${JSON.stringify(log)}
  const { log, buffered } = createLogAndOutput('info', 'test')
  for (let i = 0; i < 100; i++) buffered.write(JSON.stringify({ i }) + '\\n')
  log.error('now')
  buffered.write('{"msg": "last"}\\n')
  process.stdin.once('data', () => process.exit(0))`

test('log: buffered lines are written before a later event and at process exit', async t => {
  const child = spawn(process.execPath, [...evalArgs, buffering])
  t.teardown(() => child.kill('SIGKILL'))
  const log = collectLog(child)
  await log.line(/"now"/)
  child.stdin.write('go')
  await once(child.stdout, 'close')
  const events = log
    .text()
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  t.deepEqual(
    events.map(({ msg, i }) => i ?? msg),
    [...Array(100).keys(), 'now', 'last'],
  )
})

test('log: each line has the time of its event', t => {
  const { now } = Date
  const timeOf = createTimestamp()
  try {
    for (const ms of [1, 1, 2]) {
      Date.now = () => ms
      t.is(timeOf(), `,"time":"1970-01-01T00:00:00.00${ms}Z"`)
    }
  } finally {
    Date.now = now
  }
})

test('log: buffered lines are written after a moment, also later ones, and an error adds one line break', async t => {
  const chunks: string[] = []
  const write = (chunk: Buffer, _: unknown, done: () => void) => {
    chunks.push(String(chunk))
    done()
  }
  const stream = new Writable({ write })
  const { buffered, immediate } = createOutput(stream, () => {})
  for (const count of [1, 2]) {
    buffered.write(`${count}\n`)
    await until(() => chunks.length === count)
  }
  stream.emit('error', new Error('no space left on device'))
  for (const line of ['3\n', '4\n']) immediate.write(line)
  t.deepEqual(chunks, ['1\n', '2\n', '\n', '3\n', '4\n'])
})

test('log: chunks contain whole lines, at most 32 KiB; without a reader, lines are dropped and counted', async t => {
  const chunks: string[] = []
  let read = (): void => {}
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      chunks.push(String(chunk))
      // The chunk counts as read when the test calls this function.
      read = done
    },
    // As a pipe or a socket does, which could write a part of it.
    writev(waiting, done) {
      chunks.push(waiting.map(({ chunk }) => String(chunk)).join(''))
      read = done
    },
  })
  const reports: number[] = []
  const { buffered, immediate } = createOutput(stream, lines => reports.push(lines))
  let number = 0
  for (const round of [1, 2]) {
    for (let sent = 0; sent < 30_000; sent++) buffered.write(`${String(number++).padStart(199, '0')}\n`)
    t.true(stream.writableLength < 1_100_000)
    const pending = stream.writableLength
    for (let sent = 0; sent < 20_000; sent++) immediate.write(`${String(number++).padStart(199, '0')}\n`)
    t.true(stream.writableLength > pending + 900_000, 'the lines that are not buffered have room')
    t.true(stream.writableLength < 2_100_000)
    while (stream.writableLength > 0) {
      read()
      await new Promise(setImmediate)
    }
    t.is(reports.length, round)
  }
  const lines = chunks.flatMap(chunk => chunk.trimEnd().split('\n'))
  t.deepEqual(lines, [...new Set(lines)].sort(), 'no chunk is written over before it is read')
  for (const chunk of chunks) t.true(chunk.endsWith('\n') && chunk.length <= 32_768)
  // Up to one chunk of lines is still in the buffer.
  const dropped = reports.reduce((sum, lines) => sum + lines, 0)
  t.true(lines.length + dropped <= 100_000 && lines.length + dropped > 100_000 - 164)
})
