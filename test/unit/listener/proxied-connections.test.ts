// Connections that begin with a PROXY header, before HTTP and TLS: how it arrives, which peers may send it, and that
// draining, counting and the limits hold while the header is awaited.
import type { RequestListener } from 'node:http'
import net from 'node:net'
import test, { type ExecutionContext } from 'ava'
import fc from 'fast-check'
import {
  answer,
  collectRequestLog,
  countsOf,
  get,
  holdResponses,
  never,
  type Overrides,
  startDataPort,
} from '../../support/data-port.ts'
import { listenOnFreePort } from '../../support/ports.ts'
import { version1, version2, version2Raw } from '../../support/proxy-header.ts'
import { connect } from '../../support/raw.ts'
import { until } from '../../support/until.ts'

const client = '203.0.113.7'
const trusted = ['127.0.0.1']
const v1 = version1(client, '192.0.2.1')
const v2 = version2(client, '192.0.2.1', Buffer.from('\x04\0\x03abc'))
const local = version2Raw(0x20, 0, Buffer.alloc(0))

/** Opens a data port that trusts `proxies`, and collects the lines of its log. */
async function start(
  t: ExecutionContext,
  protocol: 'http' | 'https',
  overrides: Overrides & { listener?: RequestListener } = {},
) {
  const { proxies = trusted } = overrides
  const { lines, requestLog } = collectRequestLog()
  return { ...(await startDataPort(t, { protocol, ...overrides, proxies, requestLog })), lines }
}

/**
 * Starts a proxy. Each of its connections to `target` begins with `header`, in one piece with the first bytes of the
 * client, and `cut` divides this piece.
 */
async function startProxy(
  t: ExecutionContext,
  target: number,
  header: Buffer,
  cut = (bytes: Buffer): Buffer[] => [bytes],
): Promise<number> {
  const server = net.createServer(socket => {
    const onward = net.connect({ port: target, host: '127.0.0.1', noDelay: true })
    socket.on('error', () => onward.destroy())
    onward.on('error', () => socket.destroy())
    socket.once('data', async first => {
      socket.pause()
      for (const piece of cut(Buffer.concat([header, first]))) {
        onward.write(piece)
        await new Promise(setImmediate)
      }
      socket.pipe(onward).pipe(socket)
    })
  })
  t.teardown(() => server.close())
  return listenOnFreePort(server)
}

/** Cuts `bytes` into pieces of `sizes`, and a last one with the rest. */
function cutInto(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const [size, ...others] = sizes
  if (size === undefined || size >= bytes.length) return [bytes]
  return [bytes.subarray(0, size), ...cutInto(bytes.subarray(size), others)]
}

for (const protocol of ['http', 'https'] as const) {
  const isTls = protocol === 'https'

  test(`${protocol}: a header in any pieces, with or without the first bytes of the client`, async t => {
    const { number, lines } = await start(t, protocol)
    const property = fc.asyncProperty(
      fc.constantFrom(v1, v2),
      fc.array(fc.integer({ min: 1, max: 100 }), { maxLength: 20 }),
      async (header, sizes) => {
        const proxy = await startProxy(t, number, header, bytes => cutInto(bytes, sizes))
        const raw = await connect(proxy, { tls: isTls })
        const before = lines.length
        for (let requests = 0; requests < 3; requests++) {
          t.regex(await raw.ask(get), /^HTTP\/1.1 200 OK\r\n/)
        }
        await until(() => lines.length === before + 3)
        t.deepEqual(
          lines.slice(before).map(line => line.client),
          [client, client, client],
        )
        raw.socket.destroy()
      },
    )
    const examples: [Buffer, number[]][] = [v1, v2].flatMap(header => [
      [header, []],
      [header, [header.length]],
      [header, [header.length - 1]],
      [header, [header.length + 1]],
    ])
    await fc.assert(property, { numRuns: 30, examples })
  })

  test(`${protocol}: LOCAL and UNKNOWN keep the address of the connection`, async t => {
    const { number, lines } = await start(t, protocol)
    for (const header of [local, Buffer.from('PROXY UNKNOWN\r\n')]) {
      const raw = await connect(await startProxy(t, number, header), { tls: isTls })
      await raw.ask(get)
      raw.socket.destroy()
    }
    await until(() => lines.length === 2)
    t.deepEqual(
      lines.map(line => line.client),
      ['127.0.0.1', '127.0.0.1'],
    )
  })

  test(`${protocol}: the address in the header is where X-Forwarded-For starts, and is that of rejected input`, async t => {
    const { number, lines } = await start(t, protocol, { proxies: [...trusted, client] })
    const raw = await connect(await startProxy(t, number, v2), { tls: isTls })
    await raw.ask(get.replace('Host', 'X-Forwarded-For: 198.51.100.1, 198.51.100.2\r\nHost'))
    t.regex(await raw.ask('GE<T / HTTP/1.1\r\n\r\n'), /^HTTP\/1.1 400/)
    await until(() => lines.length === 2)
    t.like(lines, [
      { status: 200, client: '198.51.100.2' },
      { status: 400, refused: 'malformed_request', client },
    ])
  })

  // Alone: the others would keep the event loop from reading in time.
  test.serial(`${protocol}: a late request gets 408`, async t => {
    const { number } = await start(t, protocol, { timeouts: { headersMs: 2000, requestMs: 2000 } })
    const raw = await connect(await startProxy(t, number, v2), { tls: isTls })
    t.regex(await raw.ask('GET / HT'), /^HTTP\/1.1 408/)
  })

  test(`${protocol}: connections count from the start, and close without a line in the log`, async t => {
    const { port, open, lines } = await start(t, protocol)
    for (const part of ['', v1.subarray(0, 9), v2.subarray(0, 20), v1]) {
      const raw = await open({ tls: false })
      raw.write(part)
      await until(() => port.report().connections === 1)
      raw.socket.end()
      await raw.closed
      await until(() => port.report().connections === 0)
    }
    const reset = await open({ tls: false })
    reset.write(v2.subarray(0, 20))
    await until(() => port.report().connections === 1)
    reset.socket.resetAndDestroy()
    await until(() => port.report().connections === 0)
    t.deepEqual(lines, [])
  })

  test(`${protocol}: drain: connections close after idleMs, before, after and without a header`, async t => {
    const { port, open } = await start(t, protocol, { drain: { deadlineMs: never } })
    const silent = await open({ tls: false })
    const afterHeader = await open({ tls: false })
    afterHeader.write(v2)
    const partial = await open({ tls: false })
    partial.write(v2.subarray(0, 20))
    await until(() => port.report().connections === 3)
    port.setState('draining')
    await Promise.all([silent.closed, afterHeader.closed])
    await until(() => port.report().connections === 1)
    if (isTls) partial.socket.destroy()
    else {
      t.regex(
        await partial.ask(Buffer.concat([v2.subarray(20), Buffer.from(get)])),
        /200 OK\r\n(.|\r\n)*Connection: close/,
      )
    }
    await until(() => port.report().connections === 0)
    t.deepEqual(countsOf(port), { state: 'draining', connections: 0, active: 0, inFlight: 0 })
  })

  test(`${protocol}: untrusted peer: refused at once, and no other connection makes room for it`, async t => {
    const { port, open, lines } = await start(t, protocol, {
      proxies: ['127.0.0.2'],
      limits: { connections: 1 },
    })
    const proxy = await open({ localAddress: '127.0.0.2' })
    await until(() => port.report().connections === 1)
    const other = await open({ localAddress: '127.0.0.1' })
    other.write(v1)
    await other.closed
    t.is(other.text(), '')
    await until(() => lines.length === 1)
    t.like(lines, [{ refused: 'untrusted_proxy', client: '127.0.0.1' }])
    t.is(port.report().connections, 1)
    t.false(proxy.isClosed())
  })
}

test('rejected request: its line has the address that proxies report, also after too many headers', async t => {
  const { open, lines } = await start(t, 'http', { proxies: [...trusted, client] })
  const reported = 'Host: a\r\nX-Forwarded-For: 198.51.100.1\r\n'
  const rejected = [
    [`GET /${'a'.repeat(8192)} HTTP/1.1\r\n${reported}\r\n`, 414, '198.51.100.1'],
    [`GET / HTTP/1.1\r\n${reported}A: ${'a'.repeat(16_384)}\r\n\r\n`, 431, '198.51.100.1'],
    [`CONNECT a:1 HTTP/1.1\r\n${reported}\r\n`, 405, '198.51.100.1'],
    // The proxy has added the last header, after the one that its client has sent.
    [
      `GET / HTTP/1.1\r\n${reported}${'A: a\r\n'.repeat(200)}X-Forwarded-For: 198.51.100.2\r\n\r\n`,
      431,
      '198.51.100.2',
    ],
    // So many that Node.js drops that last one.
    [
      `GET / HTTP/1.1\r\n${reported}${'A: a\r\n'.repeat(5000)}X-Forwarded-For: 198.51.100.2\r\n\r\n`,
      431,
      client,
    ],
  ] as const
  for (const [request, status, address] of rejected) {
    const raw = await open()
    t.regex(await raw.ask(v1 + request), new RegExp(`^HTTP/1.1 ${status} `))
    await until(() => lines.length > 0)
    t.like(lines.splice(0), [{ status, client: address }])
    raw.socket.destroy()
  }
})

test('malformed header: closed at once', async t => {
  const { port, open, lines } = await start(t, 'http')
  for (const bytes of [
    get,
    '\x16\x03\x01',
    'PROXY TCP4 a\r\n',
    `${v1.toString().replace('TCP4', 'TCP6')}${get}`,
  ]) {
    const raw = await open()
    raw.write(bytes)
    await raw.closed
    t.is(raw.text(), '')
  }
  await until(() => lines.length === 4 && port.report().connections === 0)
  for (const line of lines) t.like(line, { refused: 'malformed_proxy_header', client: '127.0.0.1' })
})

test('time-out: a connection without a complete header is closed after 5 seconds', async t => {
  const { open, lines } = await start(t, 'http')
  const gone = await open()
  gone.socket.destroy()
  const silent = await open()
  const partial = await open()
  partial.write(v2.subarray(0, -1))
  const inTime = await open()
  inTime.write(v2)
  await Promise.all([silent.closed, partial.closed])
  t.deepEqual(
    lines.map(line => line.refused),
    ['proxy_header_timeout', 'proxy_header_timeout'],
  )
  t.regex(await inTime.ask(get), /200 OK/)
})

test('ends: a reset before the header ends only its connection, and a client that ends its side gets its response', async t => {
  const { listener, answerHeld } = holdResponses()
  const { port, open } = await start(t, 'http', { listener })
  /** What other connections have sent before it is read then. */
  const untilRead = async () => {
    const malformed = await open()
    malformed.write('x')
    await malformed.closed
  }
  const reset = await open()
  reset.write(v2.subarray(0, 20))
  const ended = await open({ allowHalfOpen: true })
  ended.socket.end(Buffer.concat([v2, Buffer.from(get)]))
  await untilRead()
  reset.socket.resetAndDestroy()
  await until(() => port.report().connections === 1)
  await answerHeld()
  t.regex(await ended.answer(), /200 OK/)
  await ended.closed
})

test('connection limit: a connection that waits for its header makes room', async t => {
  const { port, open } = await start(t, 'http', { limits: { connections: 2 } })
  const waiting = await open()
  const used = await open()
  await used.ask(Buffer.concat([v1, Buffer.from(get)]))
  const added = await open()
  await waiting.closed
  t.regex(await added.ask(Buffer.concat([v1, Buffer.from(get)])), /200 OK/)
  t.is(port.report().connections, 2)
  t.false(used.isClosed())
})

test('closing: a connection with a partial header ends at the deadline', async t => {
  const { port, open } = await start(t, 'https', { drain: { idleMs: 50, deadlineMs: 200 } })
  const partial = await open({ tls: false })
  partial.write(v1.subarray(0, 9))
  await until(() => port.report().connections === 1)
  port.setState('closing')
  await port.closed
  await partial.closed
  t.is(port.report().connections, 0)
})

test('client: the application knows the address of each request, whatever the log shows', async t => {
  const seen: (string | undefined)[] = []
  const { open } = await startDataPort(t, {
    proxies: ['127.0.0.1'],
    listener: (_request, response) => {
      seen.push(response.client)
      answer(response)
    },
  })
  const connection = await open()
  const from = (address: string) => get.replace('\r\n\r\n', `\r\nX-Forwarded-For: ${address}\r\n\r\n`)
  connection.write(version1('127.0.0.1', '192.0.2.1'))
  connection.write(from(client) + get + from(`198.51.100.1, ${client}`))
  for (let request = 0; request < 3; request++) await connection.answer()
  t.deepEqual(seen, [client, '127.0.0.1', client])
})
