// Which requests are served and which are rejected, with a plain `http.Server`.
import { once } from 'node:events'
import http, { type ServerResponse } from 'node:http'
import test from 'ava'
import { createConnections } from '../../../src/listener/connections.ts'
import { claimPorts } from '../../support/ports.ts'
import { connect } from '../../support/raw.ts'

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const post = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody'

test('pipelining limit: requests behind a running write are rejected immediately and not queued', async t => {
  const limits = { connections: 10, pipelined: 2, unreadBytes: 1_000_000 }
  const connections = createConnections(limits, () => {})
  const served: ServerResponse[] = []
  const rejected: ServerResponse[] = []
  const server = http.createServer((request, response) =>
    connections.requestStarted(request.socket, response, {
      serve: () => served.push(response),
      reject: () => rejected.push(response),
    }),
  )
  server.on('connection', connections.add)
  const ports = await claimPorts()
  t.teardown(async () => {
    server.close()
    await ports.release()
  })
  server.listen(ports.first, '127.0.0.1')
  await once(server, 'listening')

  const client = await connect(ports.first)
  client.write(post + get.repeat(3))
  while (rejected.length < 2) await new Promise(setImmediate)
  t.is(served.length, 1)
  for (const response of [...served.splice(0), ...rejected]) response.end()
  while (served.length < 1) await new Promise(setImmediate)
  for (const response of served) response.end()
  for (let due = 0; due < 4; due++) t.regex(await client.answer(), /^HTTP\/1.1 200 OK/)
  client.socket.destroy()
})
