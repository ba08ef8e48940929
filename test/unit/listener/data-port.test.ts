// A data port over real sockets, HTTP and HTTPS: draining, closing, invalid input, certificates.
import { once } from 'node:events'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import net from 'node:net'
import tls from 'node:tls'
import test, { type ExecutionContext } from 'ava'
import { listen } from '../../../src/core/listen.ts'
import type { PortReport } from '../../../src/core/messages.ts'
import { createDrainSignals } from '../../../src/listener/drain-signals.ts'
import {
  answer,
  countsOf,
  createTestPort,
  echo,
  get,
  holdResponses,
  keyPair,
  makeKeyPair,
  never,
  post,
  startDataPort as start,
  ticketKeys,
} from '../../support/data-port.ts'
import type { Raw } from '../../support/raw.ts'
import { stall } from '../../support/stall.ts'
import { until } from '../../support/until.ts'

/** So long that a request that is written to a new connection at once is read before, on a slow machine, too. */
const idleMs = 1000

const report = (
  state: PortReport['state'],
  connections: number,
  inFlight: number,
  active = 0,
): ReturnType<typeof countsOf> => ({ state, connections, active, inFlight })

/** Returns how many milliseconds `wait` takes. */
async function timed(wait: Promise<unknown>): Promise<number> {
  const startMs = performance.now()
  await wait
  return performance.now() - startMs
}

/** Allows 5 ms, because timers may fire early. */
function atLeast(t: ExecutionContext, value: number, minimum: number): void {
  t.true(value >= minimum - 5, `${value} is less than ${minimum}`)
}

/** Resolves when a port that drains has closed a new connection: on a slow machine, before its TLS handshake is complete. */
const closedWhenIdle = (opening: Promise<Raw>): Promise<unknown> =>
  opening.then(
    client => client.closed,
    error => error,
  )

for (const protocol of ['http', 'https'] as const) {
  test(`${protocol}: serving: connections are kept alive and counted`, async t => {
    const { port, open } = await start(t, { protocol })
    const client = await open()
    for (let request = 0; request < 3; request++) {
      // The time is that of the settings.
      t.regex(
        await client.ask(get),
        /^HTTP\/1.1 200 OK\r\n(.|\r\n)*Connection: keep-alive\r\nKeep-Alive: timeout=75\r\n/,
      )
    }
    client.write(post)
    await until(() => port.report().inFlight === 1)
    t.deepEqual(countsOf(port), report('serving', 1, 1, 1))
    await client.ask('body')
    t.deepEqual(countsOf(port), report('serving', 1, 0, 1))
    client.socket.destroy()
    await until(() => port.report().connections === 0)
  })

  test(`${protocol}: drain: requests are served, and each response, also to an earlier request, closes its connection`, async t => {
    const { port, open } = await start(t, { protocol })
    const before = await open()
    before.write(post)
    await until(() => port.report().inFlight === 1)
    port.setState('draining')
    t.regex(await before.ask('body'), /200 OK\r\n(.|\r\n)*Connection: close/)
    await before.closed
    const during = await open()
    t.regex(await during.ask(get), /200 OK\r\n(.|\r\n)*Connection: close/)
    await until(() => port.report().connections === 0)
    t.deepEqual(countsOf(port), report('draining', 0, 0))

    port.setState('serving')
    const afterwards = await open()
    t.regex(await afterwards.ask(get), /Connection: keep-alive/)
  })

  test(`${protocol}: drain: idle connections close after idleMs, used or not`, async t => {
    const { port, open } = await start(t, { protocol, drain: { deadlineMs: never } })
    const used = await open()
    await used.ask(get)
    const unused = await open()
    await until(() => port.report().connections === 2)
    port.setState('draining')
    const quietMs = await timed(Promise.all([used.closed, unused.closed]))
    atLeast(t, quietMs, idleMs)
  })

  test(`${protocol}: drain: a request that arrives while the process stalls is served, on a used connection or a new one`, async t => {
    const { port, open } = await start(t, { protocol, drain: { idleMs: 100, deadlineMs: never } })
    const clients = [await open(), await open()]
    const [used] = clients
    used?.write(get)
    await used?.answer()
    await until(() => port.report().connections === 2)
    port.setState('draining')
    for (const client of clients) client.write(get)
    stall(300)
    for (const client of clients) t.regex(await client.answer(), /200 OK/)
  })

  test(`${protocol}: incomplete requests outlast the deadline of a drain, and closing cuts them off at deadlineMs`, async t => {
    const deadlineMs = 2 * idleMs
    const { port, open } = await start(t, { protocol, drain: { deadlineMs } })
    const halfBody = await open()
    halfBody.write(`${post}bo`)
    const halfHead = await open()
    halfHead.write('GET / HTTP/1.1\r\nHo')
    await until(() => port.report().inFlight === 1 && port.report().connections === 2)
    port.setState('draining')
    // Opened one after the other, each is closed after idleMs.
    for (let waitedMs = 0; waitedMs < deadlineMs + idleMs; waitedMs += idleMs) await closedWhenIdle(open())
    await until(() => port.report().connections <= 2)
    t.deepEqual(countsOf(port), report('draining', 2, 1))
    port.setState('closing')
    const cutMs = await Promise.all([timed(halfBody.closed), timed(halfHead.closed)])
    for (const ms of cutMs) atLeast(t, ms, deadlineMs)
  })

  test(`${protocol}: drain: a connection whose response preceded the body of its request closes after idleMs`, async t => {
    const { port, open } = await start(t, {
      protocol,
      listener: (_, response) => answer(response),
      drain: { deadlineMs: never },
    })
    const client = await open()
    await client.ask('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n')
    client.write('x'.repeat(200_000))
    port.setState('draining')
    await t.notThrowsAsync(client.closed)
  })

  test(`${protocol}: drain: a partially received request head is not idle and gets its response`, async t => {
    const { port, open } = await start(t, { protocol })
    const client = await open()
    client.write('GET / HT')
    await until(() => port.report().connections === 1)
    port.setState('draining')
    await closedWhenIdle(open())
    t.regex(await client.ask('TP/1.1\r\nHost: a\r\n\r\n'), /200 OK\r\n(.|\r\n)*Connection: close/)
  })

  test(`${protocol}: closing: new connections are refused, and existing connections are served`, async t => {
    const { port, open } = await start(t, { protocol, drain: { idleMs: never, deadlineMs: never } })
    const idle = await open()
    await idle.ask(get)
    const busy = await open()
    busy.write(post)
    await until(() => port.report().inFlight === 1 && port.report().connections === 2)
    port.setState('closing')
    await t.throwsAsync(open(), { code: 'ECONNREFUSED' })
    t.regex(await idle.ask(get), /200 OK\r\n(.|\r\n)*Connection: close/)
    await until(() => port.report().connections === 1)
    t.deepEqual(countsOf(port), report('closing', 1, 1))
    port.setState('serving')
    t.is(port.report().state, 'closing', 'closing is final')
    t.regex(await busy.ask('body'), /Connection: close/)
    await port.closed
    t.deepEqual(countsOf(port), report('closing', 0, 0))
  })

  test(`${protocol}: closing: without connections it completes immediately`, async t => {
    const { port } = await start(t, { protocol, drain: { idleMs: never, deadlineMs: never } })
    port.setState('closing')
    await t.notThrowsAsync(port.closed)
  })

  test(`${protocol}: a connection reset leaves no connection and no request in flight`, async t => {
    const { port, open } = await start(t, { protocol })
    for (const part of ['', 'GET', get, `${post}b`]) {
      const client = await open()
      client.write(part)
      await until(() => port.report().connections === 1)
      if (client.socket instanceof tls.TLSSocket) client.socket.destroy()
      else client.socket.resetAndDestroy()
      await until(() => port.report().connections === 0)
      t.is(port.report().inFlight, 0)
    }
  })

  test(`${protocol}: parser errors and CONNECT get a JSON response`, async t => {
    const { open } = await start(t, { protocol })
    const a = (count: number) => 'a'.repeat(count)
    const refused: [string, number, string][] = [
      ['BLAH\r\n\r\n', 400, 'malformed_request'],
      ['GET / HTTP/9.9\r\nHost: a\r\n\r\n', 400, 'malformed_request'],
      ['GET / HTTP/1.1\r\nHost : a\r\n\r\n', 400, 'malformed_request'],
      [`${post.replace('4', '4\r\nTransfer-Encoding: chunked')}`, 400, 'malformed_request'],
      ['POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', 400, 'malformed_request'],
      [`GET / HTTP/1.1\r\nHost: a\r\nX: ${a(120_000)}\r\n\r\n`, 431, 'headers_too_large'],
      // A TLS record is too small to show where the overflow started.
      [
        `GET /${a(120_000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
        ...(protocol === 'http' ? ([414, 'uri_too_long'] as const) : ([431, 'headers_too_large'] as const)),
      ],
      ['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', 405, 'method_not_allowed'],
    ]
    for (const [request, status, code] of refused) {
      const client = await open()
      client.write(request)
      await client.closed
      const [head = '', body = ''] = client.text().split('\r\n\r\n')
      t.regex(head, new RegExp(`^HTTP/1.1 ${status} (.|\r\n)*Connection: close`), request.slice(0, 60))
      t.like(JSON.parse(body), { meta: { status, code } })
    }
  })
}

test('https: drain: a TCP connection without a TLS handshake is counted and closes after idleMs', async t => {
  const { port, open } = await start(t, { protocol: 'https', drain: { deadlineMs: never } })
  const client = await open({})
  await until(() => port.report().connections === 1)
  port.setState('draining')
  atLeast(t, await timed(client.closed), idleMs)
})

test('drain: a state that is set again does not let the idle time begin anew', async t => {
  const { port, open } = await start(t, { drain: { deadlineMs: never, idleMs: 300 } })
  const { socket } = await open()
  await until(() => port.report().connections === 1)
  await until(
    () => {
      port.setState('draining')
      return socket.destroyed
    },
    { withinMs: 10_000 },
  )
  t.pass()
})

test('report: a port is quiet from the end of its last connection on', async t => {
  const { port, open } = await start(t)
  const client = await open()
  await until(() => port.report().connections === 1)
  t.is(port.report().quietMs, 0)
  const beforeEndMs = performance.now()
  client.socket.destroy()
  await until(() => port.report().connections === 0)
  const { quietMs } = port.report()
  t.true(quietMs <= performance.now() - beforeEndMs)
})

test('drain: pipelined requests that were received before it are all served', async t => {
  const { listener, answerHeld } = holdResponses()
  const { port, open } = await start(t, { listener })
  const client = await open()
  client.write(get + get)
  await until(() => port.report().inFlight === 2)
  port.setState('draining')
  for (let served = 0; served < 2; served++) await answerHeld()
  await client.closed
  t.is(client.text().match(/200 OK/g)?.length, 2)
})

test('drain: pipelined requests are all served, and only the last response closes the connection', async t => {
  const { port, open } = await start(t, {
    listener: (_request, response) => setImmediate(() => answer(response)),
  })
  const client = await open()
  port.setState('draining')
  client.write(`${get}${post}body${get}`)
  for (const connection of ['keep-alive', 'keep-alive', 'close'])
    t.regex(await client.answer(), new RegExp(`200 OK\r\n.*Connection: ${connection}`, 's'))
  await client.closed
})

test('drain: requests behind a response with Connection: close are not served', async t => {
  const served: string[] = []
  const listener: RequestListener = ({ method = '' }, response) => {
    served.push(method)
    answer(response)
  }
  const { port, open } = await start(t, { listener })
  const client = await open()
  port.setState('draining')
  client.write(`${post.replace('POST', 'PUT')}body${post}body${get}`)
  await client.closed
  t.is(client.text().match(/200 OK/g)?.length, served.length)
  t.regex(client.text(), /Connection: close\r\n\r\nok$/)
})

test('drain: one that ends within its delay ends no response, and later ones are told about the next drain', async t => {
  const [resumed, drained] = [createDrainSignals(50), createDrainSignals(50)]
  const { drainDelayOver } = resumed.current()
  resumed.setState('draining')
  t.true(resumed.current().draining.aborted)
  resumed.setState('serving')
  t.false(resumed.current().draining.aborted)
  drained.setState('draining')
  // Their timers do not keep the process alive. Those of the same length expire in the order of their starts.
  const alive = setInterval(() => {}, never)
  t.teardown(() => clearInterval(alive))
  await once(drained.current().drainDelayOver, 'abort')
  t.false(drainDelayOver.aborted)
  drained.setState('serving')
  t.false(drained.current().drainDelayOver.aborted)
  resumed.setState('closing')
  t.true(drainDelayOver.aborted, 'it ends with the port')
})

test('maxActive: active connections beyond it end with their next response, and others are accepted soon again', async t => {
  const { port, open } = await start(t)
  const ask = async (client: Awaited<ReturnType<typeof open>>) => {
    client.write(get)
    return client.answer()
  }
  const clients = await Promise.all(Array.from({ length: 4 }, () => open()))
  const [first, second, third, fresh] = clients
  if (first === undefined || second === undefined || third === undefined || fresh === undefined)
    throw new Error('no clients')
  for (const client of [first, second, third, first, second, third, fresh]) await ask(client)
  t.deepEqual(countsOf(port), report('serving', 4, 0, 3), 'active are those with a second request')
  for (let again = 0; again < 2; again++) port.setState('serving', { maxActive: 1 })
  await t.throwsAsync(open(), { code: 'ECONNREFUSED' })
  for (const client of [second, third]) t.regex(await ask(client), /Connection: close/)
  await Promise.all([second.closed, third.closed])
  for (const client of [first, fresh]) t.regex(await ask(client), /Connection: keep-alive/)
  const untilAccepted = async (): Promise<void> => {
    for (let refused = true; refused; )
      await open().then(
        () => (refused = false),
        () => {},
      )
  }
  await untilAccepted()
  await until(() => port.report().connections === 3)
  port.setState('serving', { maxActive: 1 })
  port.setState('serving')
  await t.throwsAsync(open(), { code: 'ECONNREFUSED' }, 'each limit is a reason to wait for a moment')
  port.setState('serving', { maxActive: 1 })
  await untilAccepted()
  await until(() => port.report().connections === 4)
  port.setState('serving', { maxActive: 1 })
  port.setState('closing')
  await t.throwsAsync(open(), { code: 'ECONNREFUSED' })
})

test('maxActive: a connection whose last response is sent is not active', async t => {
  const { port, open } = await start(t)
  const client = await open({ allowHalfOpen: true })
  for (let asked = 0; asked < 2; asked++) await client.ask(get)
  port.setState('serving', { maxActive: 0 })
  t.regex(await client.ask(get), /Connection: close/)
  await until(() => port.report().inFlight === 0)
  t.deepEqual(countsOf(port), report('serving', 1, 0, 0))
})

test('an error response is never written into an incomplete response', async t => {
  const { open } = await start(t, {
    listener(_request: IncomingMessage, response) {
      response.writeHead(200, { 'Content-Length': 10 }).write('half')
    },
  })
  const client = await open()
  client.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  await client.until(/half/)
  client.write('zz\r\n')
  await client.closed
  t.regex(client.text(), /half$/)
})

test('an error response never follows a complete response to the same request', async t => {
  const { open } = await start(t, { listener: (_request, response) => answer(response) })
  const client = await open()
  await client.ask('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
  client.write('zz\r\n')
  await client.closed
  t.is(client.text(), '')
})

test('keep-alive: an unread request body does not block the next request', async t => {
  const { open } = await start(t, { listener: (_request, response) => answer(response) })
  const client = await open()
  t.regex(await client.ask(`${post}body${get}`), /200 OK/)
  t.regex(await client.answer(), /200 OK/)
})

test('drain: a connection is idle when the rest of a request has followed its response', async t => {
  let received: Promise<unknown> | undefined
  const listener: RequestListener = (request, response) => {
    received = once(request, 'end')
    answer(response)
  }
  const { port, open } = await start(t, { listener, drain: { deadlineMs: never } })
  const client = await open()
  t.regex(await client.ask(post), /200 OK/)
  client.write('body')
  await received
  port.setState('draining')
  await until(() => port.report().connections === 0)
})

test('report: requests without a response count after 3 s, but not those that wait for an event or have begun to answer', async t => {
  const responses: ServerResponse[] = []
  let hanging = 0
  const listener: RequestListener = ({ url }, response) => {
    responses.push(response)
    response.route = url
    if (url === '/waits') response.awaitsEvent = true
    if (url === '/begins') response.writeHead(200, { 'Content-Length': 2 }).write('o')
    // The first one that hangs has just arrived.
    if (url === '/hangs' && hanging++ === 0) t.deepEqual(port.report().unanswered, {})
  }
  const { port, open } = await start(t, { listener })
  for (const path of ['/begins', '/waits', '/hangs', '/hangs']) {
    const client = await open()
    client.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
  }
  await until(() => port.report().unanswered?.['/hangs'] === 2)
  t.deepEqual(port.report().unanswered, { '/hangs': 2 })
  for (const response of responses) response.end('k')
  await until(() => port.report().inFlight === 0)
  t.deepEqual(port.report().unanswered, {})
})

test('certificate: a new one applies to new connections, and open connections stay open', async t => {
  const { port, number, open } = await start(t, { protocol: 'https' })
  const nameOf = ({ socket }: Awaited<ReturnType<typeof open>>) =>
    socket instanceof tls.TLSSocket ? socket.getPeerCertificate().subject.CN : undefined
  const before = await open()
  t.is(nameOf(before), 'one.test')
  port.useTls({ keyPair: await makeKeyPair('two.test'), ticketKeys })
  t.is(nameOf(await open()), 'two.test')
  port.useTls({ keyPair, ticketKeys })
  t.is(nameOf(await open()), 'one.test')
  t.regex(await before.ask(get), /200 OK/)
  await t.throwsAsync(
    once(tls.connect({ port: number, maxVersion: 'TLSv1.1', rejectUnauthorized: false }), 'secureConnect'),
  )
})

test('TLS session: another worker resumes it, even with a new certificate', async t => {
  const [one, other] = [await start(t, { protocol: 'https' }), await start(t, { protocol: 'https' })]
  other.port.useTls({ keyPair: await makeKeyPair('two.test'), ticketKeys })
  const first = await one.open()
  const [session] = await once(first.socket, 'session')
  const second = await other.open({ tls: true, session })
  t.true(second.socket instanceof tls.TLSSocket && second.socket.isSessionReused())
})

test('listen: waits for a port in use; the error names the port and the reason', async t => {
  const { port, number } = await start(t)
  const next = createTestPort(number, 'http', echo)
  const listening = next.listen()
  next.setState('serving')
  // Its attempt follows that of the port that waits, which has failed, too.
  await t.throwsAsync(listen(net.createServer(), { host: '127.0.0.1', port: number }, 'a test', 0))
  port.setState('closing')
  await t.notThrowsAsync(listening)
  t.teardown(() => {
    next.setState('closing')
    return next.closed
  })
  // Before `listen`, a state opens nothing: an attempt would fail, too.
  createTestPort(number, 'http', echo).setState('serving')
  await t.throwsAsync(createTestPort(number, 'http', echo).listen(), {
    message: `cannot listen on 127.0.0.1:${number} (data port data): the port is already in use, possibly by \`npm start\` or \`npm run dev\`; free that port, or choose others in config/ or with NODE_CONFIG`,
  })
})
