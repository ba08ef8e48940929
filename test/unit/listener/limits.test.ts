// The limits of one data port: connections, requests in flight and unread bytes.
import { once } from 'node:events'
import type { RequestListener, ServerResponse } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { get, startDataPort } from '../../support/data-port.ts'
import { until } from '../../support/until.ts'

const limits = { connections: 3, unreadBytes: 8_000_000 }
const drain = { idleMs: 100, deadlineMs: 1000 }
const start = (t: ExecutionContext, listener: RequestListener) =>
  startDataPort(t, { listener, limits, drain })

const ok: RequestListener = (_request, response) => void response.setHeader('Content-Length', 2).end('ok')

test('connection limit: a new connection replaces the one that has been idle for longest', async t => {
  const { port, open } = await start(t, ok)
  const [first, second, third] = [await open(), await open(), await open()]
  for (const client of [second, third, first]) {
    client.write(get)
    await client.answer()
  }
  const added = await open()
  await second.closed
  added.write(get)
  t.regex(await added.answer(), /^HTTP\/1.1 200/)
  t.is(port.report().connections, limits.connections)
  t.deepEqual([first.isClosed(), third.isClosed()], [false, false])
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
