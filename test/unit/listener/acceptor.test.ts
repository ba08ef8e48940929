// When a port stops accepting connections.
import net from 'node:net'
import test, { type ExecutionContext } from 'ava'
import type { SocketHandle } from '../../../src/core/listen.ts'
import { createAcceptor } from '../../../src/listener/acceptor.ts'
import { never, startDataPort } from '../../support/data-port.ts'
import { until } from '../../support/until.ts'

test('stop: a socket that arrives later is closed', async t => {
  let deliver = (_socket: SocketHandle): void => {}
  const requested = new Promise<SocketHandle>(resolve => {
    deliver = resolve
  })
  const address = { host: '127.0.0.1', port: 1 }
  const acceptor = createAcceptor(net.createServer(), address, 'a test', () => requested)
  const started = acceptor.start()
  acceptor.stop()
  let isClosed = false
  deliver({
    close() {
      isClosed = true
    },
  })
  await started
  t.true(isClosed)
  t.false(acceptor.isAccepting())
})

/** Keeps the connections from being established that a port opens to itself: its queue is full. Returns these connections. */
function fillQueue(t: ExecutionContext): readonly net.Socket[] {
  const { connect } = net
  t.teardown(() => Object.assign(net, { connect }))
  const own: net.Socket[] = []
  const connectLater = () => {
    const socket = new net.Socket()
    own.push(socket)
    return socket
  }
  Object.assign(net, { connect: connectLater })
  return own
}

test.serial('closing: a port without connections stays open until its queue is empty', async t => {
  const { port } = await startDataPort(t, { drain: { deadlineMs: never } })
  const own = fillQueue(t)
  let isClosed = false
  void port.closed.then(() => {
    isClosed = true
  })
  port.setState('closing', { emptiesQueue: true })
  // It opens one at intervals, which are shorter than those at which it looks whether it is closed.
  await until(() => own.length === 10)
  t.false(isClosed)
  own[0]?.emit('connect')
  await port.closed
  t.pass()
})

test.serial('closing: a port whose queue does not get empty closes at its deadline', async t => {
  const { port } = await startDataPort(t, { drain: { deadlineMs: 100 } })
  fillQueue(t)
  let isClosed = false
  void port.closed.then(() => {
    isClosed = true
  })
  port.setState('closing', { emptiesQueue: true })
  await until(() => isClosed, { withinMs: 10_000 })
  t.pass()
})
