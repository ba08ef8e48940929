// The cache beside a Redis that answers with errors.
import net from 'node:net'
import test from 'ava'
import { createCache } from '../../../src/cache/cache.ts'
import { createLog } from '../../../src/core/log.ts'
import { listenOnFreePort } from '../../support/ports.ts'

test('read: one that succeeds ends a series of failures', async t => {
  let reply = ''
  const server = net.createServer(socket =>
    socket.on('data', data => {
      const commands = String(data).split(/\*\d+\r\n/)
      for (const command of commands.slice(1)) socket.write(/mget/i.test(command) ? reply : '+OK\r\n')
    }),
  )
  const port = await listenOnFreePort(server)
  let onConnected = (): void => {}
  const connected = new Promise<void>(resolve => {
    onConnected = resolve
  })
  const log = Object.assign(createLog('silent', 'worker'), { info: () => onConnected() })
  const cache = createCache({ url: [`redis://127.0.0.1:${port}`], ttlSeconds: 1, timeoutMs: 10_000 }, log)
  t.teardown(() => {
    cache.close()
    server.close()
  })
  await connected
  const outcomes: (string | undefined)[] = []
  for (const isFailure of [true, true, false, true, true, false, true, true, true]) {
    reply = isFailure ? '-BUSY Redis is busy\r\n' : '*1\r\n$2\r\nkv\r\n'
    outcomes.push(...(await cache.read(['k'])))
  }
  t.deepEqual(
    outcomes.filter(value => value !== undefined),
    ['v', 'v'],
  )
  t.like(cache.report(), { hits: 2, misses: 7, state: 'away' })
})
