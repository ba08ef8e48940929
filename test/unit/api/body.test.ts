// Reading of request bodies: how the parsing of long ones shares the event loop.
import { once } from 'node:events'
import http from 'node:http'
import type { Socket } from 'node:net'
import test, { type ExecutionContext } from 'ava'
import Koa, { type Context } from 'koa'
import { createReadBody, type ReadBody } from '../../../src/api/requests/body.ts'
import { ApiError } from '../../../src/core/api-error.ts'
import { collectGarbage } from '../../support/garbage.ts'
import { connect } from '../../support/raw.ts'
import { until } from '../../support/until.ts'

const BYTES = 2 ** 20
const head = `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${BYTES}\r\n\r\n`

type Serve = (ctx: Context, readBody: ReadBody) => Promise<void>

/** @param serve reads the body of a request @returns the number of the port, and the sockets of its connections */
async function listen(t: ExecutionContext, serve: Serve) {
  const readBody = createReadBody({ bodyBytes: BYTES, receivingBytes: 8 * BYTES })
  const app = new Koa()
  // Koa would print a reset.
  app.silent = true
  app.use(async ctx => {
    await serve(ctx, readBody)
    ctx.body = ''
  })
  const server = http.createServer(app.callback()).listen(0, '127.0.0.1')
  const sockets: Socket[] = []
  server.on('connection', socket => sockets.push(socket))
  t.teardown(() => server.close())
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return { port: address.port, sockets }
}

/**
 * Has each of four clients send a body but its last byte, and waits until the server has received it. The parser needs hundreds
 * of milliseconds for each body.
 */
async function connectAll(t: ExecutionContext, serve: Serve) {
  const { port, sockets } = await listen(t, serve)
  const clients = await Promise.all(Array.from({ length: 4 }, () => connect(port)))
  t.teardown(() => {
    for (const { socket } of clients) socket.destroy()
  })
  await Promise.all(
    clients.map(({ socket }) => new Promise(sent => socket.write(head + '['.repeat(BYTES - 1), sent))),
  )
  const sent = head.length + BYTES - 1
  await until(() => sockets.length === clients.length && sockets.every(({ bytesRead }) => bytesRead === sent))
  return clients
}

test.serial('body: timers fire between long bodies that arrive together', async t => {
  let ticks = 0
  const timer = setInterval(() => ticks++, 1)
  t.teardown(() => clearInterval(timer))
  /** The ticks before the response to each body. */
  const seen = new Set<number>()
  const clients = await connectAll(t, async (ctx, readBody) => {
    await readBody(ctx).catch(() => {})
    seen.add(ticks)
  })
  for (const client of clients) client.write('[')
  await Promise.all(clients.map(client => client.until(/^HTTP\/1.1 200 /)))
  t.is(seen.size, clients.length)
})

test.serial('body: a suspension while one is parsed does not delay the others for as long', async t => {
  const clients = await connectAll(t, async (ctx, readBody) => {
    await readBody(ctx).catch(() => {})
  })
  const { now } = performance
  t.teardown(() => {
    performance.now = now
  })
  let calls = 0
  performance.now = () => 3_600_000 * ++calls
  for (const client of clients) client.write('[')
  await Promise.all(clients.map(client => client.until(/^HTTP\/1.1 200 /)))
  t.pass()
})

test.serial('body: one whose connection ends while it waits is dropped before its turn', async t => {
  let arrived = 0
  /** The port of the client whose body arrives last. Then it resets its connection. */
  let gonePort: number | undefined
  let wasLast = true
  /** The error codes of the bodies, by the ports of their clients. */
  const codes = new Map<number | undefined, string>()
  const clients = await connectAll(t, async (ctx, readBody) => {
    const { remotePort } = ctx.socket
    ctx.req.once('end', () => {
      if (++arrived < clients.length) return
      gonePort = remotePort
      clients.find(({ socket }) => socket.localPort === remotePort)?.socket.resetAndDestroy()
    })
    const error: unknown = await readBody(ctx).catch((error: unknown) => error)
    if (error instanceof ApiError) codes.set(remotePort, error.code)
    if (remotePort === gonePort) wasLast = codes.size === clients.length
  })
  for (const client of clients) client.write('[')
  await until(() => codes.size === clients.length)
  t.false(wasLast)
  t.is(codes.get(gonePort), 'malformed_request')
  codes.delete(gonePort)
  t.deepEqual([...codes.values()], ['malformed_json', 'malformed_json', 'malformed_json'])
})

test.serial('body: one that has been read is not kept while its request is served', async t => {
  let parsed: WeakRef<object> | undefined
  const read = async (ctx: Context, readBody: ReadBody) => {
    parsed = new WeakRef(await readBody(ctx))
  }
  const { port } = await listen(t, async (ctx, readBody) => {
    await read(ctx, readBody)
    await until(() => {
      collectGarbage()
      return parsed?.deref() === undefined
    })
  })
  const client = await connect(port)
  t.teardown(() => client.socket.destroy())
  client.write(`${head}{"meta":"${'x'.repeat(BYTES - '{"meta":""}'.length)}"}`)
  await client.until(/^HTTP\/1.1 200 /)
  t.pass()
})

test.serial('body: one that is refused leaves the memory while its connection is open', async t => {
  let part: WeakRef<Buffer> | undefined
  const { port } = await listen(t, async (ctx, readBody) => {
    let first: WeakRef<Buffer> | undefined
    ctx.req.once('data', chunk => {
      first = new WeakRef(chunk)
    })
    const error: unknown = await readBody(ctx).catch((error: unknown) => error)
    if (error instanceof ApiError && error.code === 'unavailable') part = first
  })
  // Nine bodies but for their last bytes: the limit is eight.
  const clients = await Promise.all(Array.from({ length: 9 }, () => connect(port)))
  for (const client of clients) client.write(head + '['.repeat(BYTES - 1))
  await until(() => {
    if (part === undefined) return false
    collectGarbage()
    return part.deref() === undefined
  })
  t.true(clients.every(({ socket }) => !socket.destroyed))
  for (const { socket } of clients) socket.destroy()
})
