// Pipelined requests over real sockets, HTTP and HTTPS: served one after the other, all of them, in bounded memory.
import type { RequestListener, ServerResponse } from 'node:http'
import tls from 'node:tls'
import test from 'ava'
import fc from 'fast-check'
import { answer, get, holdResponses, never, post, startDataPort as start } from '../../support/data-port.ts'
import { until } from '../../support/until.ts'

/** Node.js reads this much at once. */
const READ_BYTES = 65_536
/** The most requests of this length that may be in flight: one is served, 100 wait, and those of one more read. */
const mostInFlight = (bytes: number) => 101 + READ_BYTES / bytes

/** Responds with the URL of the request, after its body has arrived. */
const echoUrl: RequestListener = (request, response) => {
  request
    .resume()
    .on('end', () => response.setHeader('Content-Length', request.url?.length ?? 0).end(request.url))
}

for (const protocol of ['http', 'https'] as const) {
  test(`${protocol}: any sequence of requests, in any pieces, is served one by one and in order`, async t => {
    let running = 0
    const served: string[] = []
    const { open } = await start(t, {
      protocol,
      listener(request, response) {
        t.is(++running, 1)
        served.push(`${request.method} ${request.url}`)
        // Whether the body is read at once, later or never makes no difference.
        const respond = () => {
          response.on('finish', () => running--)
          response.setHeader('Content-Length', request.url?.length ?? 0).end(request.url)
        }
        if (request.url?.endsWith('0')) setImmediate(respond)
        else if (request.url?.endsWith('1')) respond()
        else request.resume().on('end', respond)
      },
    })
    const property = fc.asyncProperty(
      fc.array(fc.constantFrom('GET', 'POST', 'DELETE', 'PUT'), { minLength: 1, maxLength: 40 }),
      fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 8 }),
      async (methods, lengths) => {
        served.length = 0
        const all = methods.map((method, at) => `${method} /${at}`)
        let bytes = all
          .map(
            line =>
              `${line} HTTP/1.1\r\nHost: a\r\n${line.startsWith('P') ? 'Content-Length: 4\r\n\r\nbody' : '\r\n'}`,
          )
          .join('')
        const client = await open()
        for (const length of lengths) {
          client.write(bytes.slice(0, length))
          bytes = bytes.slice(length)
          await new Promise(setImmediate)
        }
        client.write(bytes)
        for (const [at] of methods.entries())
          t.regex(await client.answer(), new RegExp(`^HTTP/1.1 200 OK.*\r\n\r\n/${at}$`, 's'))
        client.socket.destroy()
        t.deepEqual(served, all)
      },
    )
    await fc.assert(property, { numRuns: 50 })
  })

  test(`${protocol}: 300 requests get 300 responses, in order`, async t => {
    const { open } = await start(t, { protocol, listener: echoUrl })
    const client = await open()
    client.write(Array.from({ length: 300 }, (_, at) => get.replace('/', `/${at}`)).join(''))
    for (let at = 0; at < 300; at++) t.true((await client.answer()).endsWith(`\r\n\r\n/${at}`))
  })

  test(`${protocol}: requests that arrive while a long response is being sent are answered after it`, async t => {
    const long = 'x'.repeat(10_000_000)
    const { port, open } = await start(t, {
      protocol,
      limits: { unreadBytes: 2 * long.length },
      listener(request, response) {
        const body = request.url === '/0' ? long : (request.url ?? '')
        response.setHeader('Content-Length', body.length).end(body)
      },
    })
    const client = await open()
    client.write(get.replace('/', '/0'))
    await client.until(/x/)
    client.socket.pause()
    // In one packet, and in TLS records of their own.
    for (const path of ['/1', '/2', '/3']) client.write(get.replace('/', path))
    await until(() => port.report().inFlight > 1)
    client.socket.resume()
    for (const body of [long, '/1', '/2', '/3']) {
      const text = await client.answer()
      t.true(text.endsWith(`\r\n\r\n${body}`), text.slice(0, 300))
    }
  })

  test(`${protocol}: each request is served in a turn of the event loop of its own`, async t => {
    let inTurn = 0
    const { open } = await start(t, {
      protocol,
      listener(_request, response) {
        if (++inTurn === 1) setImmediate(() => (inTurn = 0))
        t.is(inTurn, 1)
        answer(response)
      },
    })
    const client = await open()
    client.write(get.repeat(300))
    for (let due = 0; due < 300; due++) t.regex(await client.answer(), /^HTTP\/1.1 200 OK/)
  })

  test(`${protocol}: while many requests wait, nothing more is read, even if bodies are`, async t => {
    const request = `${post}body`
    let most = 0
    const { port, open } = await start(t, {
      protocol,
      listener(incoming, response) {
        most = Math.max(most, port.report().inFlight)
        incoming.resume().on('end', () => setImmediate(answer, response))
      },
    })
    const client = await open()
    const count = Math.ceil((5 * READ_BYTES) / request.length)
    client.write(request.repeat(count))
    for (let due = 0; due < count; due++) t.regex(await client.answer(), /^HTTP\/1.1 200 OK/)
    t.true(most > 1 && most <= mostInFlight(request.length), `${most} were in flight`)
  })

  for (const [title, respond] of [
    ['gets no response', () => {}],
    ['does not read', (response: ServerResponse) => response.end(Buffer.alloc(10_000_000))],
  ] as const)
    test(`${protocol}: a client that sends without end and ${title} is not read further`, async t => {
      const waiting: ServerResponse[] = []
      const { port, open } = await start(t, {
        protocol,
        listener({ url }, response) {
          if (url === '/other') answer(response)
          else respond(waiting[waiting.push(response) - 1] ?? response)
        },
      })
      const client = await open()
      client.socket.pause()
      client.write(get.repeat(200_000))
      const other = await open()
      for (let round = 0; round < 100; round++) {
        await other.ask(get.replace('/', '/other'))
        t.true(port.report().inFlight <= mostInFlight(get.length))
      }
      t.is(waiting.length, 1)
    })

  // Alone: the floods would keep the event loop from reading in time.
  for (const arrives of [true, false])
    test.serial(
      `${protocol}: a request is ${arrives ? 'not late while it waits for its turn' : 'late after its turn'}`,
      async t => {
        const { listener, held, answerHeld } = holdResponses()
        const { open } = await start(t, {
          protocol,
          listener,
          timeouts: { headersMs: 3000, requestMs: arrives ? never : 3000 },
        })
        const client = await open()
        client.write(`${get.repeat(150)}GET / HT`)
        await until(() => held.length === 1)
        const late = await open()
        t.regex(await late.ask('GET / HT'), /^HTTP\/1.1 408/)
        if (arrives) client.write('TP/1.1\r\nHost: a\r\n\r\n')
        for (let due = 0; due < (arrives ? 151 : 150); due++) {
          await answerHeld()
          t.regex(await client.answer(), /^HTTP\/1.1 200 OK/)
        }
        if (!arrives) t.regex(await client.answer(), /^HTTP\/1.1 408/)
      },
    )
}

for (const protocol of ['http', 'https'] as const)
  test.serial(
    `${protocol}: a large body that waits for its turn is not late, and then has its whole time`,
    async t => {
      const waiting: ServerResponse[] = []
      const { open } = await start(t, {
        protocol,
        listener(request, response) {
          if (request.method === 'GET') waiting.push(response)
          else request.resume().on('end', () => answer(response))
        },
        timeouts: { headersMs: 3000, requestMs: 3000 },
      })
      const body = Buffer.alloc(5_000_000)
      const head = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`
      const [client, silent] = [await open(), await open()]
      client.write(get + head)
      client.write(body)
      silent.write(get + head)
      await until(() => waiting.length === 2)
      // Late when the others would have been, too.
      const other = await open()
      t.regex(await other.ask('GET / HT'), /^HTTP\/1.1 408/)
      for (const response of waiting) answer(response)
      for (const _request of [get, head]) t.regex(await client.answer(), /^HTTP\/1.1 200 OK/)
      t.regex(await silent.answer(), /^HTTP\/1.1 200 OK/)
      t.regex(await silent.answer(), /^HTTP\/1.1 408/)
      await silent.closed
    },
  )

// Input behind a request in flight, and the response to that input.
const rejectedInputs: [string, string, RegExp][] = [
  ['garbage', 'garbage\r\n\r\n', /^HTTP\/1.1 400 .*"malformed_request"/s],
  [
    'an invalid Content-Length',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n',
    /^HTTP\/1.1 400 .*"malformed_request"/s,
  ],
  [
    'CONNECT',
    'CONNECT a:1 HTTP/1.1\r\nHost: a\r\nRequest-Id: mine\r\n\r\n',
    /^HTTP\/1.1 405 .*Request-Id: mine\r\n.*Allow: DELETE, GET, .*"method_not_allowed"/s,
  ],
  [
    'an invalid chunk',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
    /^HTTP\/1.1 400 .*"malformed_request"/s,
  ],
  [
    'a too long target (and not what follows it)',
    `GET /${'a'.repeat(9000)} HTTP/1.1\r\nHost: a\r\n\r\n${get}garbage\r\n\r\n`,
    /^HTTP\/1.1 414 .*"uri_too_long"/s,
  ],
]
for (const [title, bytes, expected] of rejectedInputs)
  test(`${title} behind a request gets its error after the response to that request`, async t => {
    const { open } = await start(t, {
      listener: (_request, response) => setImmediate(() => answer(response)),
    })
    const client = await open()
    client.write(get + get + bytes)
    for (let due = 0; due < 2; due++) t.regex(await client.answer(), /^HTTP\/1.1 200 OK/)
    await client.closed
    t.regex(client.text(), expected)
  })

for (const title of ['alone', 'behind a request'])
  test(`a request whose body is not valid is rejected with its Request-Id, and HEAD without a body: ${title}`, async t => {
    const { open } = await start(t, { listener: echoUrl })
    for (const method of ['POST', 'HEAD']) {
      const client = await open()
      if (title !== 'alone') client.write(get)
      client.write(
        `${method} / HTTP/1.1\r\nHost: a\r\nRequest-Id: mine\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      )
      if (title !== 'alone') await client.answer()
      await client.closed
      t.regex(client.text(), /^HTTP\/1.1 400 .*Request-Id: mine\r\n/s)
      t.is(client.text().includes('"request_id":"mine"'), method === 'POST')
    }
  })

for (const [title, last] of [
  ['says Connection: close', 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'],
  ['uses HTTP/1.0', 'GET / HTTP/1.0\r\n\r\n'],
])
  test(`requests behind a request that ${title} are ignored`, async t => {
    let served = 0
    const { open } = await start(t, {
      listener(_request, response) {
        served++
        setImmediate(() => answer(response))
      },
    })
    const client = await open()
    client.write(`${get}${last}${get}`)
    for (let due = 0; due < 2; due++) t.regex(await client.answer(), /^HTTP\/1.[01] 200 OK/)
    await client.closed
    t.is(client.text(), '')
    t.is(served, 2)
  })

test('an error that waits for its turn is not counted after a reset of the connection', async t => {
  const { listener, held } = holdResponses()
  const { port, open } = await start(t, { listener })
  const client = await open()
  client.write(`${get}garbage\r\n\r\n`)
  await until(() => held.length === 1)
  if (client.socket instanceof tls.TLSSocket) throw new Error('the connection has TLS')
  client.socket.resetAndDestroy()
  await client.closed
  for (const response of held) answer(response)
  await until(() => port.report().connections === 0)
  t.is(port.traffic.totals().responses['4xx'], 0)
})
