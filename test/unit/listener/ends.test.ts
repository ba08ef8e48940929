// The end of a connection over real sockets: the client gets its responses, whatever it still sends or no longer sends.
import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import net from 'node:net'
import tls from 'node:tls'
import test from 'ava'
import {
  answer,
  collectRequestLog,
  get,
  holdResponses,
  post,
  startDataPort as start,
} from '../../support/data-port.ts'
import { listenOnFreePort } from '../../support/ports.ts'
import { connect } from '../../support/raw.ts'
import { until } from '../../support/until.ts'

const megabytes = 5

/** Resolves when the system has taken all bytes. */
const writeAll = (socket: net.Socket, bytes: string | Buffer) =>
  new Promise<void>((resolve, reject) => {
    socket.write(bytes, error => (error ? reject(error) : resolve()))
  })

/** Connects with TLS over a TCP socket that the test can reset. */
async function connectTls(options: Omit<net.TcpNetConnectOpts, 'host'>) {
  const tcpSocket = net.connect({ ...options, host: '127.0.0.1' })
  const client = tls.connect({ socket: tcpSocket, rejectUnauthorized: false }).on('error', () => {})
  await once(client, 'secureConnect')
  return { tcpSocket, client }
}

for (const protocol of ['http', 'https'] as const) {
  // Alone: the port waits five seconds for the body.
  test.serial(
    `${protocol}: drain: a client that sends its whole body before it reads gets an early response`,
    async t => {
      const { port, open } = await start(t, {
        protocol,
        listener: (_request, response) => answer(response),
      })
      port.setState('draining')
      for (let round = 0; round < 5; round++) {
        const client = await open()
        client.socket.pause()
        const body = Buffer.alloc(megabytes * 1_000_000)
        client.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`)
        await writeAll(client.socket, body)
        client.socket.resume()
        t.regex(await client.answer(), /^HTTP\/1.1 200 OK\r\n.*Connection: close\r\n/s)
        await client.closed
      }
      await until(() => port.report().connections === 0)
    },
  )

  test(`${protocol}: drain: what follows an early response is not served`, async t => {
    let served = 0
    const { port, open } = await start(t, {
      protocol,
      listener(_request, response) {
        served++
        answer(response)
      },
    })
    port.setState('draining')
    const client = await open()
    t.regex(await client.ask(post), /Connection: close/)
    client.write(`body${get}`)
    await client.closed
    t.is(client.text(), '')
    t.is(served, 1)
  })

  test(`${protocol}: a client that ends its side gets the responses to all its requests`, async t => {
    const { listener, answerHeld } = holdResponses()
    const { port, open } = await start(t, { protocol, listener })
    const client = await open({ tls: protocol === 'https', allowHalfOpen: true })
    client.socket.end(get.repeat(3))
    await until(() => port.report().inFlight === 3)
    for (let served = 0; served < 3; served++) {
      await answerHeld()
      t.regex(await client.answer(), /^HTTP\/1.1 200 OK/)
    }
    await until(() => port.report().connections === 0)
  })

  for (const [title, bytes, status] of [
    ['garbage', 'garbage\r\n\r\n', 400],
    ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 405],
    ['too large headers', get.replace('Host', `X: ${'a'.repeat(20_000)}\r\nHost`), 431],
  ] as const)
    test(`${protocol}: a client that sends ${title} and ends its side gets the responses before and the error`, async t => {
      const { listener, answerHeld } = holdResponses()
      const { port, open } = await start(t, { protocol, listener })
      const client = await open({ tls: protocol === 'https', allowHalfOpen: true })
      client.socket.end(get + get + bytes)
      for (let served = 0; served < 2; served++) {
        await answerHeld()
        t.regex(await client.answer(), /^HTTP\/1.1 200 OK/)
      }
      t.regex(await client.answer(), new RegExp(`^HTTP/1.1 ${status} .*Connection: close\r\n`, 's'))
      await client.closed
      await until(() => port.report().connections === 0)
    })

  test(`${protocol}: a connection whose client ends its side without a request is closed`, async t => {
    const { port, open } = await start(t, { protocol })
    for (const sent of ['', get]) {
      const client = await open({ tls: protocol === 'https', allowHalfOpen: true })
      client.write(sent)
      if (sent !== '') await client.answer()
      await until(() => port.report().connections === 1)
      client.socket.end()
      await until(() => port.report().connections === 0)
    }
    t.pass()
  })
}

for (const [title, bytes] of [
  ['a chunk that is not valid', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n'],
  ['the end of the client’s side', post],
] as const)
  test(`http: a request whose body ends with ${title} has one line in the log, and the error has its id`, async t => {
    const { lines, requestLog } = collectRequestLog()
    const { port, open } = await start(t, {
      listener: (_request, response) => void response.setHeader('Request-Id', 'known'),
      requestLog,
    })
    const client = await open({ allowHalfOpen: true })
    client.write(bytes)
    if (bytes === post) client.socket.end()
    t.regex(await client.answer(), /^HTTP\/1.1 400 .*Request-Id: known\r\n/s)
    client.socket.end()
    await until(() => port.report().connections === 0)
    t.like(lines, [{ method: 'POST', status: 400, refused: 'malformed_request', requestId: 'known' }])
    t.is(lines.length, 1)
    t.is(port.traffic.totals().responses['4xx'], 1)
    t.is(port.traffic.totals().responses.aborted, 0)
  })

test('http: a pipelined request whose body is not valid has one line in the log', async t => {
  const { lines, requestLog } = collectRequestLog()
  const { port, open } = await start(t, {
    listener: (_request, response) => void setImmediate(() => response.end()),
    requestLog,
  })
  const client = await open()
  client.write(
    `${get}POST / HTTP/1.1\r\nHost: a\r\nRequest-Id: mine\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n`,
  )
  await until(() => port.report().connections === 0)
  t.like(lines, [
    { method: 'GET', status: 200 },
    { method: 'POST', status: 400, refused: 'malformed_request', requestId: 'mine' },
  ])
  t.is(lines.length, 2)
  t.is(port.traffic.totals().responses['4xx'], 1)
  t.is(port.traffic.totals().responses.aborted, 0)
})

test('http: a client that pipelines before it reads gets the response that closes its connection', async t => {
  const { listener, held } = holdResponses()
  const { port, open } = await start(t, { listener })
  const client = await open()
  client.socket.pause()
  const sent = writeAll(client.socket, get.repeat(300_000))
  await until(() => port.report().inFlight > 1)
  for (const response of held) answer(response.setHeader('Connection', 'close'))
  await sent
  client.socket.resume()
  t.regex(await client.answer(), /^HTTP\/1.1 200 OK\r\nConnection: close\r\n/)
  await client.closed
  t.is(client.text(), '')
})

for (const protocol of ['http', 'https'] as const)
  for (const [title, asks, crossing] of [
    ['drain: a request', get, get],
    ['Connection: close: the end of the client’s side', get.replace('Host', 'Connection: close\r\nHost'), ''],
  ] as const)
    test(`${protocol}: ${title} that crosses the last response on the way does not cut it off`, async t => {
      const body = 'x'.repeat(2 ** 20)
      const listener: RequestListener = (_request, response) =>
        void response.setHeader('Content-Length', body.length).end(body)
      const { port, open } = await start(t, { protocol, listener })
      if (title.startsWith('drain')) port.setState('draining')
      const client = await open({ tls: protocol === 'https', allowHalfOpen: true })
      client.write(asks)
      await client.until(/Connection: close\r\n/)
      client.socket.pause()
      // The service has handed all of the response to the system.
      await until(() => port.traffic.totals().responses['2xx'] === 1)
      await new Promise<void>(resolve => client.socket.end(crossing, resolve))
      client.socket.resume()
      const text = await client.answer()
      t.is(text.slice(text.indexOf('\r\n\r\n') + 4), body)
      await client.closed
      t.is(client.text(), '')
    })

test('http: a client that goes on sending after the last response is cut off after 64 MiB', async t => {
  const { open } = await start(t)
  const client = await open({ allowHalfOpen: true })
  t.regex(await client.ask('no HTTP\r\n\r\n'), /^HTTP\/1.1 400 /)
  const chunk = Buffer.alloc(2 ** 20)
  let chunks = 0
  while (!client.socket.closed) {
    chunks++
    await writeAll(client.socket, chunk).catch(() => {})
  }
  t.true(chunks > 64 && chunks < 128, `${chunks}`)
})

test('https: a connection that ends before its handshake is closed', async t => {
  const { port, open } = await start(t, { protocol: 'https' })
  for (const sent of [Buffer.alloc(0), Buffer.from('16030100a5010000a10303', 'hex')]) {
    const client = await open({ allowHalfOpen: true })
    client.write(sent)
    await until(() => port.report().connections === 1)
    client.socket.end()
    await until(() => port.report().connections === 0)
  }
  t.pass()
})

for (const protocol of ['http', 'https'] as const)
  test(`${protocol}: a connection that its client resets together with a request is closed at once`, async t => {
    const { port, number } = await start(t, {
      protocol,
      listener: ({ url }, response) => void (url === '/' && answer(response)),
    })
    const tcpSocket = net.connect(number, '127.0.0.1')
    const client =
      protocol === 'http' ? tcpSocket : tls.connect({ socket: tcpSocket, rejectUnauthorized: false })
    client.on('error', () => {}).write(get)
    await once(client, 'data')
    client.write(get.replace('/', '/unanswered'))
    tcpSocket.resetAndDestroy()
    await until(() => port.report().connections === 0)
    t.is(port.report().inFlight, 0)
  })

for (const stage of ['handshake', 'handshake and many requests', 'first request'])
  test(`https: a connection that its client ends and resets with the ${stage} is closed`, async t => {
    let reset = (): void => {}
    const { port, number } = await start(t, {
      protocol: 'https',
      listener: (_request, response) => {
        reset()
        setImmediate(answer, response)
      },
    })
    const { tcpSocket, client } = await connectTls({ port: number })
    // Behind many requests, the port does not read the end.
    client.write(stage === 'handshake and many requests' ? get.repeat(3000) : get)
    // The TLS socket then ends its side of the session.
    if (stage !== 'first request') tcpSocket.resetAndDestroy()
    else reset = () => void tcpSocket.resetAndDestroy()
    await once(client, 'close')
    await until(() => port.report().connections === 0)
    t.is(port.report().inFlight, 0)
  })

test('https: a connection whose client sends an invalid TLS record is closed at once, whatever is in flight', async t => {
  const { port, number } = await start(t, {
    protocol: 'https',
    listener: ({ url }, response) => void (url === '/' ? answer(response) : response.write('event')),
  })
  for (const path of ['/', '/stream']) {
    const { tcpSocket, client } = await connectTls({ port: number })
    t.teardown(() => tcpSocket.destroy())
    client.write(get.replace('/', path))
    await once(client, 'data')
    tcpSocket.write('no TLS record')
    await until(() => port.report().connections === 0)
    t.is(port.report().inFlight, 0)
  }
})

test('https: a client cannot renegotiate TLS 1.2: its connection would be without a timeout', async t => {
  const { number } = await start(t, { protocol: 'https' })
  const client = tls.connect({
    port: number,
    host: '127.0.0.1',
    maxVersion: 'TLSv1.2',
    rejectUnauthorized: false,
  })
  t.teardown(() => client.destroy())
  await once(client, 'secureConnect')
  const error = await new Promise<Error | null>(resolve => {
    client.on('error', resolve)
    client.renegotiate({}, resolve)
  })
  t.regex(error?.message ?? '', /no renegotiation/)
})

test('https: connections from one port of a client to two addresses are counted once each', async t => {
  const { port, number } = await start(t, { protocol: 'https', host: '0.0.0.0' })
  const from = { port: number, localAddress: '127.0.0.1', localPort: number + 1, rejectUnauthorized: false }
  const clients = ['127.0.0.1', '127.0.0.2'].map(host => tls.connect({ ...from, host }))
  t.teardown(() => {
    for (const client of clients) client.destroy()
  })
  await Promise.all(clients.map(client => once(client, 'secureConnect')))
  for (const client of clients) {
    client.write(get)
    await once(client, 'data')
  }
  t.is(port.report().connections, 2)
})

test('https: a connection from the port of one that its client has reset is counted once', async t => {
  const { port, number } = await start(t, { protocol: 'https' })
  const fromOnePort = { port: number, localAddress: '127.0.0.1', localPort: number + 1 }
  const { tcpSocket } = await connectTls(fromOnePort)
  await until(() => port.report().connections === 1)
  tcpSocket.resetAndDestroy()
  const { client } = await connectTls(fromOnePort)
  t.teardown(() => client.destroy())
  client.write(get)
  await once(client, 'data')
  t.is(port.report().connections, 1)
})

test('https: drain: a connection with a part of a TLS record is not idle', async t => {
  const { port, number, open } = await start(t, { protocol: 'https' })
  let forwardRest = (): void => {}
  let onForwarded = (): void => {}
  let maxBytes = Infinity
  const proxy = net.createServer(socket => {
    const server = net.connect(number, '127.0.0.1')
    server.pipe(socket)
    socket.on('data', bytes => {
      server.write(bytes.subarray(0, maxBytes), () => onForwarded())
      forwardRest = () => void server.write(bytes.subarray(maxBytes))
    })
  })
  const client = await connect(await listenOnFreePort(proxy), { tls: true })
  t.teardown(() => proxy.close())
  t.teardown(() => client.socket.destroy())
  await client.ask(get)

  const idle = await open()
  maxBytes = 20
  const forwarded = new Promise<void>(resolve => {
    onForwarded = resolve
  })
  client.write(get)
  await forwarded
  port.setState('draining')
  await idle.closed
  forwardRest()
  t.regex(await client.answer(), /^HTTP\/1.1 200/)
})
