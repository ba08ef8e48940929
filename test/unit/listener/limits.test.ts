// The limits of one data port: connections, requests in flight and unread bytes.
import { once } from 'node:events'
import type { RequestListener, ServerResponse } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { createDataPort } from '../../../src/listener/data-port.ts'
import { claimPorts } from '../../support/ports.ts'
import { connect, type Raw } from '../../support/raw.ts'

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const limits = {
  bodyBytes: 1000,
  batchEntries: 10,
  recordsPerPage: 10,
  filters: 10,
  membershipsPerUser: 10,
  urlBytes: 8192,
  headerBytes: 16_384,
  headers: 100,
  connections: 3,
  pipelined: 2,
  receivingBytes: 10_000,
  unreadBytes: 8_000_000,
}

async function start(t: ExecutionContext, listener: RequestListener) {
  const claim = await claimPorts()
  const number = claim.first
  const port = createDataPort({
    port: { label: 'data', port: number, protocol: 'http' },
    config: {
      host: '127.0.0.1',
      limits,
      timeouts: { headersMs: 15_000, requestMs: 60_000, keepAliveMs: 75_000 },
      drain: { mode: '404', delayMs: 0, idleMs: 100, deadlineMs: 1000 },
    },
    listener,
    ticketKeys: Buffer.alloc(48),
  })
  await port.listen()
  const clients: Raw[] = []
  t.teardown(async () => {
    for (const { socket } of clients) socket.destroy()
    port.setState('closing')
    await port.closed
    await claim.release()
  })
  return {
    port,
    async open(): Promise<Raw> {
      const client = await connect(number)
      clients.push(client)
      return client
    },
  }
}

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
  while (waiting.length < clients.length) await new Promise(setImmediate)
  const added = await open()
  await added.closed
  for (const response of waiting) response.setHeader('Content-Length', 2).end('ok')
  for (const client of clients) t.regex(await client.answer(), /^HTTP\/1.1 200/)
})

test('pipelining limit: requests beyond it get 503 with Retry-After, after the responses before them', async t => {
  const waiting: ServerResponse[] = []
  const { port, open } = await start(t, (_request, response) => void waiting.push(response))
  const client = await open()
  client.write(get.repeat(limits.pipelined + 2))
  while (port.report().inFlight < limits.pipelined) await new Promise(setImmediate)
  t.is(waiting.length, limits.pipelined)
  // Rejected requests do not count towards the limit of all requests in flight.
  const other = await open()
  other.write(get)
  while (port.report().inFlight < limits.pipelined + 3) await new Promise(setImmediate)
  for (const response of waiting) response.setHeader('Content-Length', 2).end('ok')
  t.regex(await other.answer(), /^HTTP\/1.1 200/)
  for (let due = 0; due < limits.pipelined; due++) t.regex(await client.answer(), /^HTTP\/1.1 200/)
  for (let over = 0; over < 2; over++) {
    const answer = await client.answer()
    t.regex(answer, /^HTTP\/1.1 503 /)
    t.regex(answer, /\r\nRetry-After: 1\r\n/)
    t.regex(answer, /"code":"unavailable"/)
  }
  client.write(get)
  while (waiting.length <= limits.pipelined + 1) await new Promise(setImmediate)
  waiting.at(-1)?.setHeader('Content-Length', 2).end('ok')
  t.regex(await client.answer(), /^HTTP\/1.1 200/)
})

test('in-flight count: a closed connection no longer counts', async t => {
  const waiting: ServerResponse[] = []
  const { port, open } = await start(t, (_request, response) => void waiting.push(response))
  for (let round = 1; round <= 3; round++) {
    const client = await open()
    client.write(get.repeat(limits.pipelined))
    while (waiting.length < round * limits.pipelined) await new Promise(setImmediate)
    client.socket.destroy()
    while (port.report().connections > 0) await new Promise(setImmediate)
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
    while (responses.length === before) await new Promise(setImmediate)
  }
  const [first] = responses
  if (first === undefined) throw new Error('no request was served')
  await once(first, 'close')
  greedy.socket.resume()
  await greedy.closed
  t.true(greedy.text().length < 20_000_000)
  slow.socket.resume()
  while (slow.text().length < 7_000_000) await once(slow.socket, 'data')
  t.pass()
})
