// Requests after which Node.js hands over the socket or drops bytes: CONNECT and `Connection: Upgrade`.
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import tls from 'node:tls'
import test from 'ava'
import { get, startDataPort as start } from '../../support/data-port.ts'
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
      limits: { unreadBytes: bytes },
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

  test(`${protocol}: CONNECT behind a request without a response: the connection times out`, async t => {
    const { port, open } = await start(t, {
      protocol,
      listener: () => {},
      timeouts: { headersMs: 200, requestMs: 200 },
    })
    const client = await open()
    client.write(get + connect)
    await until(() => port.report().inFlight === 1)
    await client.closed
    t.is(client.text(), '')
    await until(() => port.report().connections === 0)
  })
}
