// Requests after which Node.js hands over the socket or drops bytes: CONNECT and `Connection: Upgrade`.
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import tls from 'node:tls'
import test from 'ava'
import { answer, get, startDataPort as start } from '../../support/data-port.ts'
import { until } from '../../support/until.ts'

const connect = 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'

for (const protocol of ['http', 'https'] as const) {
  test(`${protocol}: CONNECT behind a request: a reset ends only the connection`, async t => {
    const waiting: ServerResponse[] = []
    const { port, open } = await start(t, {
      protocol,
      listener: (_request, response) => waiting.push(response),
    })
    for (let round = 1; round <= 20; round++) {
      const client = await open()
      client.write(get + connect)
      await until(() => waiting.length === round)
      if (client.socket instanceof tls.TLSSocket) client.socket.destroy()
      else client.socket.resetAndDestroy()
      await client.closed
      // Two writes: the first one can still succeed.
      waiting.at(-1)?.write('early')
      await new Promise(setImmediate)
      waiting.at(-1)?.end('late')
      await until(() => port.report().connections === 0)
    }
    t.is(port.report().inFlight, 0)
  })

  test(`${protocol}: CONNECT behind a request: a response that waits for its reader is completed`, async t => {
    const bytes = 20_000_000
    const chunk = Buffer.alloc(100_000, 'a')
    const { open } = await start(t, {
      protocol,
      limits: { unreadBytes: 2 * bytes },
      listener(_request, response) {
        response.setHeader('Content-Length', bytes)
        Readable.from(Array.from({ length: bytes / chunk.length }, () => chunk)).pipe(response)
      },
    })
    const client = await open()
    client.socket.pause()
    client.write(get + connect)
    await new Promise(setImmediate)
    client.socket.resume()
    t.regex(await client.answer(), /^HTTP\/1.1 200 OK\r\n/)
    t.regex(await client.answer(), /^HTTP\/1.1 405 /)
    await client.closed
  })

  // Alone: the others would keep the event loop from reading in time.
  test.serial(
    `${protocol}: CONNECT behind a request without a response: the connection times out`,
    async t => {
      const { port, open } = await start(t, {
        protocol,
        listener: () => {},
        timeouts: { headersMs: 2000, requestMs: 2000 },
      })
      const client = await open()
      client.write(get + connect)
      await until(() => port.report().inFlight === 1)
      await client.closed
      t.is(client.text(), '')
      await until(() => port.report().connections === 0)
    },
  )

  test(`${protocol}: Upgrade: no other request is served on the connection, in whatever pieces it arrives`, async t => {
    const served: string[] = []
    const { open } = await start(t, {
      protocol,
      listener(request, response) {
        served.push(`${request.method} ${request.url}`)
        request.resume().on('end', () => setImmediate(answer, response))
      },
    })
    const upgrade = 'GET /1 HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n\r\n'
    const body = 'DELETE /2 HTTP/1.1\r\nHost: a\r\n\r\n'
    const head = `POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`
    for (const pieces of [[upgrade + head + body], [upgrade + head, body], [upgrade, head + body]]) {
      const client = await open()
      for (const piece of pieces) {
        client.write(piece)
        await new Promise(setImmediate)
      }
      t.regex(await client.answer(), /^HTTP\/1.1 200 OK\r\n.*Connection: close\r\n/s)
      await client.closed
      t.is(client.text(), '')
      t.deepEqual(served.splice(0), ['GET /1'])
    }
  })

  test(`${protocol}: Upgrade: the body of the request is read as usual`, async t => {
    const { open } = await start(t, { protocol })
    const client = await open()
    client.write(
      'POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 4\r\n\r\n',
    )
    await new Promise(setImmediate)
    t.regex(await client.ask('body'), /^HTTP\/1.1 200 OK\r\n/)
  })
}
