// The request log: one line per request, and a log level that can be changed at run time.
import { connect } from 'node:net'
import test from 'ava'
import { createClient } from '../support/http.ts'
import { createOperator } from '../support/operator.ts'
import { connect as connectRaw } from '../support/raw.ts'
import { runInWorkers, startService } from '../support/service.ts'

const service = await startService({
  workers: 2,
  config: { log: { level: 'info' } },
  env: {
    NODE_NAME: 'Żółw "1"',
    // The supervisor is slow to tell a new worker the log level: by then, the worker has logged what does not wait for it.
    ...runInWorkers(`const { send } = process
      process.send = (...args) =>
        args[0].type === 'hello' ? setTimeout(() => send.apply(process, args), 1000) : send.apply(process, args)`),
  },
})
const operator = createOperator(service)
const api = createClient(service.url)
const tls = createClient(service.httpsUrl)
test.after.always(async t => {
  api.close()
  tls.close()
  t.is(await service.stop(), 0)
})

interface Line {
  level: number
  msg: string
  pid: number
  port?: string
  requestId?: string
  durationMs?: number
  [key: string]: unknown
}

const lines = (): Line[] => service.logLines(/./).map(line => JSON.parse(line))

/** Waits for the line of the request with this id. */
const lineOf = async (requestId: string): Promise<Line> =>
  JSON.parse(await service.logLine(new RegExp(`"requestId":"${requestId}"`)))

test.serial('request line: contains all documented fields and no personal data', async t => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  const id = await api.create('/v1/users', { first_name: 'Secret', last_name: 'Name' })
  const read = await api.get(`/v1/users/${id}`, { 'request-id': 'read', traceparent })
  const found = await lineOf('read')
  t.like(found, {
    level: 30,
    role: 'worker',
    msg: 'request',
    node: 'Żółw "1"',
    port: 'http',
    method: 'GET',
    route: '/v1/users/:user_id',
    status: 200,
    bytes: Buffer.byteLength(read.text),
    client: '127.0.0.1',
    traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
    parentId: '00f067aa0ba902b7',
  })
  t.true(Number(found.durationMs) > 0)
  t.regex(String(found.time), /^\d{4}-.*Z$/)

  await api.get('/v1/users?first_name=Secret', { 'request-id': 'list', traceparent: 'nonsense' })
  t.deepEqual(
    Object.keys(await lineOf('list')).sort(),
    'bytes client durationMs level method msg node pid port requestId role route status time'.split(' '),
  )
  await tls.send('HEAD', `/v1/users/${id}`, { 'request-id': 'head' })
  t.like(await lineOf('head'), { port: 'https', client: '127.0.0.1', method: 'HEAD', status: 200, bytes: 0 })
  await api.get('/v1/Secret', { 'request-id': 'nowhere' })
  t.like(await lineOf('nowhere'), { status: 404, route: undefined })
  t.notRegex(service.log(), /Secret|Name/)
  t.false(service.log().includes(service.database))
})

test.serial('log: every line of supervisor and workers has the name of the node', async t => {
  await service.logLine(/"role":"worker".*"msg":"worker listening"/)
  await operator.run('status')
  await service.logLine(/"role":"supervisor".*"msg":"command"/)
  for (const { node } of lines()) t.is(node, 'Żółw "1"')
})

test.serial('request line: also for a request that the client aborts', async t => {
  const body = '{"first_name": "a", "last_name": "gone"}'
  const socket = connect(service.port('http'), '127.0.0.1')
  socket.write(
    `POST /v1/users HTTP/1.1\r\nHost: a\r\nRequest-Id: gone\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(1)}`,
  )
  await operator.until(({ ports }) => ports.http?.in_flight === 1)
  // The end of the input would be an error, which gets a response.
  socket.resetAndDestroy()
  const line = await service.logLine(/"status":"aborted".*"requestId":"gone"/)
  t.like(JSON.parse(line), { method: 'POST', client: '127.0.0.1' })
})

test.serial(
  'request line: a request with a body that the parser rejects has one, with the error',
  async t => {
    const raw = await connectRaw(service.port('http'))
    raw.write(
      'POST /v1/users HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n',
    )
    const answer = await raw.answer()
    const id = /Request-Id: (\S+)/i.exec(answer)?.[1] ?? 'none'
    await raw.closed
    await operator.until(({ ports }) => ports.http?.in_flight === 0)
    const bytes = Number(/Content-Length: (\d+)/i.exec(answer)?.[1])
    t.like(await lineOf(id), { route: '/v1/users', status: 400, refused: 'malformed_request', bytes })
  },
)

test.serial('request line: also for a request that the parser rejects', async t => {
  const refusedId = async (bytes: string) => {
    const raw = await connectRaw(service.port('http'))
    return /Request-Id: (\S+)/i.exec(await raw.ask(bytes))?.[1] ?? 'none'
  }
  const cases = [
    ['GE<T / HTTP/1.1\r\n\r\n', { status: 400, refused: 'malformed_request' }],
    [`GET / HTTP/1.1\r\nA: ${'a'.repeat(200_000)}\r\n\r\n`, { status: 431, refused: 'headers_too_large' }],
    ['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', { status: 405, refused: 'method_not_allowed' }],
  ] as const
  for (const [bytes, wanted] of cases)
    t.like(await lineOf(await refusedId(bytes)), {
      level: 30,
      msg: 'request',
      port: 'http',
      client: '127.0.0.1',
      ...wanted,
    })
})

test.serial('log-level: changes at once in every worker, and applies to new workers', async t => {
  const bad = await operator.run('log-level', 'loud by=ada')
  t.regex(bad.error ?? '', /"loud"; the levels are trace, debug, info, warn, error, fatal, silent$/)
  t.regex((await operator.run('log-level')).error ?? '', /the levels are/)
  t.like(await operator.run('log-level', 'warn by=ada'), { level: 'warn', error: undefined })
  // Enough requests on new connections to reach both workers.
  const quiet = Array.from({ length: 8 }, (_, index) => `quiet-${index}`)
  const ask = (requestId: string) =>
    api.send('GET', '/v1/users', { 'request-id': requestId, connection: 'close' })
  await operator.until(({ workers }) => workers.every(({ state }) => state === 'ready'))
  const workerCount = (await service.workers()).length
  for (const requestId of quiet) await ask(requestId)

  t.like(await operator.run('log-level', 'debug'), { level: 'debug' })
  for (const requestId of ['loud-1', 'loud-2', 'loud-3', 'loud-4']) {
    await ask(requestId)
    await lineOf(requestId)
  }
  t.is(workerCount, 2)
  t.deepEqual(
    lines().filter(({ requestId }) => requestId?.startsWith('quiet')),
    [],
  )

  t.like(await operator.run('log-level', 'warn'), { level: 'warn' })
  const before = lines().length
  t.falsy((await operator.run('reload')).error)
  t.deepEqual(
    lines()
      .slice(before)
      .filter(({ level }) => level < 40),
    [],
  )
})
