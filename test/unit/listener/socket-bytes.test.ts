// The bytes of a connection that its client may not have read, over real sockets.
import { once } from 'node:events'
import net, { type Socket } from 'node:net'
import test from 'ava'
import { createSocketBytes } from '../../../src/listener/socket-bytes.ts'
import { listenOnFreePort } from '../../support/ports.ts'

test('unread: what a client has read of small parts does not count', async t => {
  const server = net.createServer()
  const port = await listenOnFreePort(server)
  const client = net.connect(port, '127.0.0.1')
  t.teardown(() => server.close())
  t.teardown(() => client.destroy())
  const [socket]: Socket[] = await once(server, 'connection')
  if (socket === undefined) throw new Error('no connection')
  socket.on('error', () => {})
  const bytes = createSocketBytes(socket)
  const part = Buffer.alloc(10_000)
  for (let n = 0; n < 100; n++) {
    socket.write(part)
    await once(client.resume(), 'data')
    bytes.unread()
  }
  client.pause()
  let before = 0
  while (socket.writableLength === 0) {
    t.is(bytes.unread(), 0)
    before = socket.bytesWritten
    socket.write(part)
  }
  t.is(bytes.unread(), socket.bytesWritten - before)
})
