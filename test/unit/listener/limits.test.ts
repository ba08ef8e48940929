// The limits of one data port: connections, requests in flight, unread bytes and waiting requests.
import { once } from 'node:events'
import type { RequestListener, ServerResponse } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { type ParserError, parserError } from '../../../src/listener/parser-errors.ts'
import { createServer } from '../../../src/listener/server.ts'
import { get, never, startDataPort } from '../../support/data-port.ts'
import { listenOnFreePort } from '../../support/ports.ts'
import { connect } from '../../support/raw.ts'
import { until } from '../../support/until.ts'

const limits = { connections: 3, unreadBytes: 8_000_000, waitingBytes: 1_000_000 }
const drain = { idleMs: 100, deadlineMs: 1000 }
const start = (t: ExecutionContext, listener: RequestListener) =>
  startDataPort(t, { listener, limits, drain })

const ok: RequestListener = (_request, response) => void response.setHeader('Content-Length', 2).end('ok')

test('connection limit: a new connection replaces the one that has been idle for longest', async t => {
  const { port, open } = await start(t, ok)
  const [first, second, third] = [await open(), await open(), await open()]
  for (const client of [second, third, first]) {
    await client.ask(get)
  }
  const added = await open()
  await second.closed
  t.regex(await added.ask(get), /^HTTP\/1.1 200/)
  t.is(port.report().connections, limits.connections)
  t.deepEqual([first.isClosed(), third.isClosed()], [false, false])

  await Promise.all([open(), open()])
  await third.closed
  t.is(port.report().connections, limits.connections, 'each of two at once replaces another one')
})

test('connection limit: a new connection first replaces one whose last response is sent', async t => {
  const { port, open } = await startDataPort(t, { protocol: 'https', listener: ok, limits, drain })
  const kept = [await open(), await open()]
  for (const client of kept) await client.ask(get)
  const ended = await open({ tls: true, allowHalfOpen: true })
  t.regex(await ended.ask(get.replace('Host', 'Connection: close\r\nHost')), /Connection: close/)
  const added = await open()
  for (const client of [added, ...kept]) t.regex(await client.ask(get), /^HTTP\/1.1 200/)
  t.is(port.report().connections, limits.connections)
})

test('connection limit: if all connections are busy, the new one is closed', async t => {
  const waiting: ServerResponse[] = []
  const { open } = await start(t, (_request, response) => void waiting.push(response))
  const clients = [await open(), await open(), await open()]
  for (const client of clients) client.write(get)
  await until(() => waiting.length === clients.length)
  const added = await open()
  await added.closed
  for (const response of waiting) response.setHeader('Content-Length', 2).end('ok')
  for (const client of clients) t.regex(await client.answer(), /^HTTP\/1.1 200/)
})

test('in-flight count: a connection that was reset no longer counts', async t => {
  const waiting: ServerResponse[] = []
  const { port, open } = await start(t, (_request, response) => void waiting.push(response))
  for (let round = 1; round <= 3; round++) {
    const client = await open()
    client.write(get.repeat(5))
    await until(() => waiting.length >= round && port.report().inFlight >= 5)
    client.socket.resetAndDestroy()
    await until(() => port.report().connections === 0)
    t.is(port.report().inFlight, 0)
  }
  for (const response of waiting) response.end()
  t.is(port.report().inFlight, 0)
})

test('unread bytes limit: the connection with the most unread bytes is closed first', async t => {
  const sizes = [20_000_000, 7_000_000]
  const responses: ServerResponse[] = []
  const { open } = await start(t, (_request, response) => {
    responses.push(response)
    response.end(Buffer.alloc(sizes.shift() ?? 0))
  })
  const [greedy, slow] = [await open(), await open()]
  for (const [before, client] of [greedy, slow].entries()) {
    client.socket.pause()
    client.write(get)
    await until(() => responses.length > before)
  }
  const [first] = responses
  if (first === undefined) throw new Error('no request was served')
  await until(() => first.destroyed)
  greedy.socket.resume()
  await greedy.closed
  t.true(greedy.text().length < 20_000_000)
  slow.socket.resume()
  while (slow.text().length < 7_000_000) await once(slow.socket, 'data')
  t.pass()
})

test('unread bytes limit: it counts bytes, not UTF-16 units', async t => {
  const text = '\u20ac'.repeat(5_000_000)
  t.true(text.length < limits.unreadBytes && Buffer.byteLength(text) > limits.unreadBytes)
  let served = false
  const { port, open } = await start(t, (_request, response) => {
    served = true
    response.end(text)
  })
  const client = await open()
  client.socket.pause()
  client.write(get)
  await until(() => served)
  await until(() => port.report().connections === 0)
  t.pass()
})

test('unread bytes limit: what a client has read of a stream does not count', async t => {
  const chunk = Buffer.alloc(1_000_000)
  let greedyResponse: ServerResponse | undefined
  const { open } = await start(t, async (request, response) => {
    if (request.url === '/greedy') {
      greedyResponse = response
      response.end(Buffer.alloc(20_000_000))
      return
    }
    for (let n = 0; n < 40; n++) if (!response.write(chunk)) await once(response, 'drain')
    response.end()
  })
  const reader = await open()
  reader.write(get)
  while (reader.text().length < 12_000_000) await once(reader.socket, 'data')
  reader.socket.pause()
  const greedy = await open()
  greedy.socket.pause()
  greedy.write(get.replace('/', '/greedy'))
  await until(() => greedyResponse?.destroyed)
  reader.socket.resume()
  while (reader.text().length < 40_000_000) await once(reader.socket, 'data')
  t.pass()
})

/** A request with 15 KB of headers, which are within the limit. */
const large = `GET / HTTP/1.1\r\nHost: a\r\nX: ${'a'.repeat(15_000)}\r\n\r\n`

/** Responds to the requests in flight, and to all later ones at once. */
function createHold() {
  const held: ServerResponse[] = []
  let isOver = false
  return {
    held,
    listener: ((request, response) => {
      if (isOver) ok(request, response)
      else held.push(response)
    }) satisfies RequestListener,
    end(): void {
      isOver = true
      for (const response of held) ok(response.req, response)
    },
  }
}

test('waiting requests: their size decides how many of a connection are read; all of them are served', async t => {
  const hold = createHold()
  const { port, open } = await start(t, hold.listener)
  const client = await open()
  client.write(large.repeat(100))
  await until(() => hold.held.length === 1)
  for (let round = 1; round <= 20; round++) {
    const other = await open()
    other.write('BLAH\r\n\r\n')
    await other.closed
    t.true(port.report().inFlight <= 20, `${port.report().inFlight} are in flight`)
  }
  hold.end()
  for (let due = 0; due < 100; due++) t.regex(await client.answer(), /^HTTP\/1.1 200/)
})

test('waiting requests: beyond the limit of the port, the connection with most of them is closed', async t => {
  const hold = createHold()
  const { port, open } = await start(t, hold.listener)
  const modest = await open()
  modest.write(get.repeat(3))
  await until(() => port.report().inFlight === 3)
  // What a closed connection had is not counted any longer.
  for (let round = 1; round <= 3; round++) {
    const greedy = await open()
    greedy.write(get.repeat(10_000))
    await greedy.closed
    t.is(port.report().inFlight, 3)
  }
  for (let round = 1; round <= 6; round++) {
    const gone = await open()
    gone.write(large.repeat(10))
    await until(() => port.report().inFlight === 13)
    gone.socket.resetAndDestroy()
    await until(() => port.report().inFlight === 3)
  }
  for (const inFlight of [4, 5]) {
    modest.write(get)
    await until(() => port.report().inFlight === inFlight)
  }
  hold.end()
  for (let due = 0; due < 5; due++) t.regex(await modest.answer(), /^HTTP\/1.1 200/)
})

test('waiting requests: many connections with many of them are read slowly, and none is closed', async t => {
  const hold = createHold()
  const { open } = await startDataPort(t, {
    listener: hold.listener,
    limits: { waitingBytes: 2_000_000 },
    drain,
  })
  const clients = await Promise.all(Array.from({ length: 10 }, () => open()))
  for (const client of clients) client.write(large.repeat(100))
  await until(() => hold.held.length === clients.length)
  hold.end()
  for (const client of clients)
    for (let due = 0; due < 100; due++) t.regex(await client.answer(), /^HTTP\/1.1 200/)
})

test('size of a request: one that is too large is rejected when it arrives, and nothing after it is read', async t => {
  const hold = createHold()
  const { port, open } = await start(t, hold.listener)
  const tooLarge = `POST / HTTP/1.1\r\nRequest-Id: large\r\nContent-Length: 50000\r\nX: ${'a'.repeat(17_000)}\r\n\r\n`
  const client = await open({ allowHalfOpen: true })
  client.write(get + tooLarge + 'b'.repeat(50_000) + get.repeat(10))
  await until(() => hold.held.length === 1)
  const other = await open()
  other.write('BLAH\r\n\r\n')
  await other.closed
  t.is(port.report().inFlight, 1)
  hold.end()
  t.regex(await client.answer(), /^HTTP\/1.1 200/)
  t.regex(await client.answer(), /^HTTP\/1.1 431 .*Request-Id: large\r\n.*Connection: close\r\n/s)
  // The rest is discarded: a reset could destroy the response.
  await new Promise<void>((resolve, reject) =>
    client.socket.end(Buffer.alloc(20_000_000), (error?: Error | null) =>
      error ? reject(error) : resolve(),
    ),
  )
  await client.closed
  t.is(client.text(), '')
})

test('size of a request: a target that exceeds the limit of the parser, too, is 414', async t => {
  const { open } = await start(t, ok)
  const client = await open()
  // Just above that limit: the parser shows the last bytes that were read, which have the end of the target.
  client.write(`GET /${'a'.repeat(90_200)} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await client.closed
  t.regex(client.text(), /^HTTP\/1.1 414 /)
  // After a PROXY header, the parser can get more at once than one read brings.
  const overflow = { code: 'HPE_HEADER_OVERFLOW', rawPacket: Buffer.from(`GET /${'a'.repeat(90_200)}`) }
  const error = Object.assign(new Error('overflow'), overflow)
  t.is(parserError(error, { urlBytes: 8192, headerBytes: 16_384, headers: 100 }).status, 414)
})

test('size of a request: the response to HEAD has no body', async t => {
  const { open } = await start(t, ok)
  const client = await open()
  client.write(`HEAD /${'a'.repeat(8192)} HTTP/1.1\r\nHost: a\r\n\r\n`)
  await client.closed
  t.regex(client.text(), /^HTTP\/1.1 414 .*\r\n\r\n$/s)
})

test('header limit: few headers are kept, however many a client sends', async t => {
  const timeouts = { headersMs: never, requestMs: never, keepAliveMs: never }
  const server = createServer({
    config: { limits: { urlBytes: 100, headerBytes: 1000, headers: 20 }, timeouts },
  })
  const port = await listenOnFreePort(server)
  t.teardown(() => server.close())
  // Later versions of Node.js report an overflow.
  const kept = new Promise<number>(resolve => {
    server.on('request', ({ rawHeaders }) => resolve(rawHeaders.length / 2))
    server.on('clientError', (error: ParserError) =>
      resolve(error.code === 'HPE_HEADER_OVERFLOW' ? 0 : Infinity),
    )
  })
  const client = await connect(port)
  t.teardown(() => client.socket.destroy())
  client.write(`GET / HTTP/1.1\r\n${'x:\r\n'.repeat(10_000)}\r\n`)
  t.true((await kept) < 300)
})
