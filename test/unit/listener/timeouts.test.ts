// The time-outs of a data port. They have a process of their own: other tests would keep its event loop from reading in time.
import type { RequestListener } from 'node:http'
import test from 'ava'
import { answer, get, post, startDataPort as start } from '../../support/data-port.ts'
import { stall } from '../../support/stall.ts'
import { until } from '../../support/until.ts'

for (const protocol of ['http', 'https'] as const) {
  test(`${protocol}: timeout: a request that takes longer to serve is answered`, async t => {
    // The socket has been inactive for the timeout of the server, which is longer than requestMs.
    const listener: RequestListener = (request, response) =>
      request.socket.once('timeout', () => setImmediate(answer, response))
    const { open } = await start(t, { protocol, listener, timeouts: { headersMs: 2000, requestMs: 2000 } })
    const client = await open()
    t.regex(await client.ask(get), /^HTTP\/1.1 200 /)
    t.regex(await client.ask(get), /^HTTP\/1.1 200 /)
  })

  for (const unread of ['response', 'stream'])
    test(`${protocol}: timeout: a client that does not read its ${unread} is inactive`, async t => {
      const listener: RequestListener = (_request, response) => {
        response.awaitsEvent = unread === 'stream'
        const body = Buffer.alloc(50_000_000)
        if (response.awaitsEvent) response.write(body)
        else response.end(body)
      }
      const { port, open } = await start(t, {
        protocol,
        listener,
        limits: { unreadBytes: 100_000_000 },
        timeouts: { headersMs: 2000, requestMs: 2000 },
      })
      const client = await open()
      client.socket.pause()
      client.write(get)
      await until(() => port.report().inFlight === 1)
      await until(() => port.report().connections === 0)
      t.pass()
    })

  test(`${protocol}: timeout: a stream without an event goes on`, async t => {
    // Its heartbeats can be rarer than the timeout of the server.
    const listener: RequestListener = (request, response) => {
      response.awaitsEvent = true
      response.write('one')
      request.socket.once('timeout', () => setImmediate(() => response.end('two')))
    }
    const { open } = await start(t, { protocol, listener, timeouts: { headersMs: 2000, requestMs: 2000 } })
    const client = await open()
    client.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    await client.closed
    t.regex(client.text(), /^HTTP\/1.1 200 (.|\r\n)*\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n$/)
  })

  // Serial: the other tests need an event loop that runs.
  test.serial(
    `${protocol}: timeout: a request that arrives while the process stalls is served, on an idle connection, too`,
    async t => {
      // The response comes after the timeout has looked for input.
      const listener: RequestListener = (_request, response) =>
        setImmediate(() => setImmediate(answer, response))
      const { open } = await start(t, { protocol, listener, timeouts: { keepAliveMs: 500 } })
      const client = await open()
      await client.ask(get)
      client.write(get)
      // Some versions of Node.js add a second to the timeout.
      stall(2000)
      t.regex(await client.answer(), /^HTTP\/1.1 200 /)
    },
  )

  test(`${protocol}: timeout: an incomplete request gets 408`, async t => {
    // headersMs limits the handshake of the other connections, too, which takes longer than 2 s on a busy machine.
    const { open } = await start(t, { protocol, timeouts: { headersMs: 5000, requestMs: 5500 } })
    // With https, the connection waits for the handshake.
    const silent = await open({})
    for (const part of ['GET / HTTP/1.1\r\nHost', `${post}bo`]) {
      const client = await open()
      client.write(part)
      await client.closed
      t.regex(client.text(), /^HTTP\/1.1 408 (.|\r\n)*"code":"request_timeout"/)
    }
    await silent.closed
  })
}
