// When a port stops accepting connections.
import net from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import type { SocketHandle } from '../../../src/core/listen.ts'
import { createAcceptor } from '../../../src/listener/acceptor.ts'
import type { DataPort } from '../../../src/listener/data-port.ts'
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

test.serial('pause: no socket is listened on until its end, and none is requested after a stop', async t => {
  const { setTimeout } = globalThis
  t.teardown(() => Object.assign(globalThis, { setTimeout }))
  let endPause = (): void => {}
  Object.assign(globalThis, {
    setTimeout: (end: () => void) => {
      endPause = end
      return end
    },
  })
  const requested: ((socket: SocketHandle) => void)[] = []
  const requestSocket = () => new Promise<SocketHandle>(resolve => requested.push(resolve))
  const address = { host: '127.0.0.1', port: 1 }
  const acceptor = createAcceptor(net.createServer(), address, 'a test', requestSocket)
  const started = acceptor.start()
  acceptor.pause()
  endPause()
  t.is(requested.length, 1, 'the first request has no answer yet')
  acceptor.pause()
  let closed = 0
  const socket = { close: () => closed++ }
  requested[0]?.(socket)
  await started
  t.is(closed, 1)
  endPause()
  t.is(requested.length, 2)

  acceptor.pause()
  acceptor.stopWhenEmpty()
  requested[1]?.(socket)
  await turn()
  t.is(closed, 2)
  endPause()
  t.is(requested.length, 2)
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

/** Returns a function that tells whether the port has closed. */
function watch({ closed }: DataPort): () => boolean {
  let hasClosed = false
  void closed.then(() => {
    hasClosed = true
  })
  return () => hasClosed
}

test.serial('closing: a port without connections stays open until its queue is empty', async t => {
  const { port } = await startDataPort(t, { drain: { deadlineMs: never } })
  const own = fillQueue(t)
  const hasClosed = watch(port)
  port.setState('closing', { emptiesQueue: true })
  // It opens one at intervals, which are shorter than those at which it looks whether it is closed.
  await until(() => own.length === 10)
  t.false(hasClosed())
  own[0]?.emit('connect')
  await until(hasClosed)
  t.pass()
})

test.serial('closing: a port that cannot open a connection to itself closes', async t => {
  const { port } = await startDataPort(t, { drain: { deadlineMs: never } })
  const own = fillQueue(t)
  const hasClosed = watch(port)
  port.setState('closing', { emptiesQueue: true })
  own[0]?.emit('error', new Error('EMFILE'))
  await until(hasClosed)
  t.pass()
})

test.serial('closing: a port whose queue does not get empty closes at its deadline', async t => {
  const { port } = await startDataPort(t, { drain: { deadlineMs: 100 } })
  fillQueue(t)
  const hasClosed = watch(port)
  port.setState('closing', { emptiesQueue: true })
  await until(hasClosed, { withinMs: 10_000 })
  t.pass()
})
