// Reading of request bodies: how the parsing of long ones shares the event loop.
import { once } from 'node:events'
import http from 'node:http'
import test from 'ava'
import Koa from 'koa'
import { createReadBody } from '../../../src/api/requests/body.ts'
import { connect } from '../../support/raw.ts'

const BYTES = 2 ** 20
const head = `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${BYTES}\r\n\r\n`

test('body: timers fire between long bodies that arrive together', async t => {
  const readBody = createReadBody({ bodyBytes: BYTES, receivingBytes: 8 * BYTES })
  let ticks = 0
  const timer = setInterval(() => ticks++, 1)
  /** The ticks before the response to each body. */
  const seen = new Set<number>()
  const app = new Koa()
  app.use(async ctx => {
    await readBody(ctx).catch(() => {})
    seen.add(ticks)
    ctx.body = ''
  })
  const server = http.createServer(app.callback()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  const clients = await Promise.all(Array.from({ length: 4 }, () => connect(address.port)))
  // The parser needs hundreds of milliseconds for each body.
  await Promise.all(
    clients.map(({ socket }) => new Promise(sent => socket.write(head + '['.repeat(BYTES - 1), sent))),
  )
  for (const client of clients) client.write('[')
  await Promise.all(clients.map(client => client.until(/^HTTP\/1.1 200 /)))
  t.is(seen.size, clients.length)
  clearInterval(timer)
  for (const { socket } of clients) socket.destroy()
  server.close()
})
