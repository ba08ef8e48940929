// Who is let in and who is turned away, on the connections of a bare server.
import { once } from 'node:events'
import http, { type ServerResponse } from 'node:http'
import test from 'ava'
import { createConnections } from '../../../src/listener/connections.ts'
import { claimPorts } from '../../support/ports.ts'
import { connect } from '../../support/raw.ts'

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const post = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody'

test('who is turned away behind a write has no turn to wait for, and so keeps no memory', async t => {
  const limits = { connections: 10, pipelined: 2, unreadBytes: 1_000_000 }
  const connections = createConnections(limits, () => {})
  const served: ServerResponse[] = []
  const turnedAway: ServerResponse[] = []
  const server = http.createServer((request, response) =>
    connections.began(request.socket, response, {
      serve: () => served.push(response),
      turnAway: () => turnedAway.push(response),
    }),
  )
  server.on('connection', connections.opened)
  const ports = await claimPorts()
  t.teardown(async () => {
    server.close()
    await ports.release()
  })
  server.listen(ports.first, '127.0.0.1')
  await once(server, 'listening')

  const client = await connect(ports.first)
  client.write(post + get.repeat(3))
  while (turnedAway.length < 2) await new Promise(setImmediate)
  t.is(served.length, 1)
  for (const response of [...served.splice(0), ...turnedAway]) response.end()
  while (served.length < 1) await new Promise(setImmediate)
  for (const response of served) response.end()
  for (let due = 0; due < 4; due++) t.regex(await client.answer(), /^HTTP\/1.1 200 OK/)
  client.socket.destroy()
})
