// How long an ended connection waits for its client, over real sockets and with a clock that the test advances.
import { once } from 'node:events'
import net, { type Socket } from 'node:net'
import test from 'ava'
import { linger } from '../../../src/listener/linger.ts'
import { listenOnFreePort } from '../../support/ports.ts'

/** Calls `create` with timers that run when the clock is advanced. @returns the function that advances it */
function withClock(create: () => void): (ms: number) => void {
  let nowMs = 0
  const timers: { dueMs: number; run: () => void }[] = []
  const { setTimeout } = globalThis
  const setTimer = (run: () => void, ms: number) => {
    const timer = {
      dueMs: nowMs + ms,
      run,
      unref: () => timer,
      refresh() {
        timer.dueMs = nowMs + ms
      },
    }
    timers.push(timer)
    return timer
  }
  Object.assign(globalThis, { setTimeout: setTimer })
  create()
  Object.assign(globalThis, { setTimeout })
  return ms => {
    nowMs += ms
    for (const { dueMs, run } of timers) if (dueMs <= nowMs) run()
  }
}

test('linger: a client that goes on sending has 30 s, a silent one has 5 s', async t => {
  const server = net.createServer({ allowHalfOpen: true })
  const port = await listenOnFreePort(server)
  t.teardown(() => server.close())
  for (const isSilent of [true, false]) {
    const client = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {})
    t.teardown(() => client.destroy())
    const [socket]: Socket[] = await once(server, 'connection')
    if (socket === undefined) throw new Error('no connection')
    const advance = withClock(() => linger(socket))
    // Then it reads.
    await new Promise(setImmediate)
    for (let ms = 0; ms < 25_000; ms += 4000) {
      client.write('a')
      await once(socket, 'data')
      advance(4000)
      t.false(socket.destroyed)
    }
    if (isSilent) advance(1000)
    t.is(socket.destroyed, isSilent)
    client.write('a')
    if (!isSilent) await once(socket, 'data')
    advance(4000)
    t.true(socket.destroyed)
  }
})
