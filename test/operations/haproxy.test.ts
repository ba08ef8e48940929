// With a real HAProxy: a drain takes effect at the first check, and a rolling restart of two instances loses no request.
import test from 'ava'
import { startLoad } from '../support/load.ts'
import { startPair } from '../support/pair.ts'

const settings = { checkEvery: '200ms', delayMs: 2000 }

test.serial(
  'drain: one check takes the server out, and the status shows the HAProxy server state',
  async t => {
    const pair = await startPair(settings)
    t.teardown(() => pair.stop())
    const operator = pair.operator('A')
    // A person at the same address.
    t.is(await operator.health('http'), 200)
    await operator.until(({ ports }) => ports.http?.checkers.length === 1)
    await operator.run('drain', 'http')
    t.like(await operator.run('wait', 'http'), { ended: 'drained' })
    const [haproxy, ...others] = (await operator.status()).ports.http?.checkers ?? []
    t.like(haproxy, { address: '127.0.0.1', status: 404 })
    t.deepEqual(others, [])
    const seen = await pair.haproxy.until('http', 'A', 'NOLB')
    t.deepEqual(
      [...seen].filter(state => state !== 'UP'),
      ['NOLB'],
      'a single 404 suffices, without a count of failed checks',
    )
    t.regex(haproxy?.server_state ?? '', /name=http\/A/)
    await operator.until(({ ports }) => /^NOLB/.test(ports.http?.checkers[0]?.server_state ?? ''))
    const states = await pair.haproxy.states()
    t.is(states.get('https/A'), 'UP')
    t.is(states.get('http/B'), 'UP')
    await operator.run('resume', 'http')
    await pair.haproxy.until('http', 'A', 'UP')

    await operator.run('drain', 'https:refuse')
    await pair.haproxy.until('https', 'A', 'DOWN')
    await operator.run('resume', 'https')
    await pair.haproxy.until('https', 'A', 'UP')
  },
)

test.serial(
  'rolling restart through pm2 and the control socket: no request is lost, with the http port drained by 404 and the https port by refuse',
  async t => {
    const pair = await startPair(settings)
    t.teardown(() => pair.stop())
    const loads = await Promise.all([
      startLoad({ url: pair.haproxy.url, clients: 8, pauseMs: 2 }),
      startLoad({ url: pair.haproxy.url, clients: 4, pauseMs: 2, connection: 'one a request' }),
      startLoad({ url: pair.haproxy.httpsUrl, clients: 4, pauseMs: 2 }),
    ])
    for (const load of loads) t.teardown(load.stop)
    await pair.restart('A', 'pm2')
    await pair.restart('B', 'socket')
    for (const load of loads) {
      const { requests, failures } = await load.stop()
      t.deepEqual(failures, {})
      t.log(`${requests} requests`)
    }
  },
)
