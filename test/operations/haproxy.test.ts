// With a real HAProxy: a drain takes effect at the first check, and a rolling restart of two instances loses no request.
import { readFile } from 'node:fs/promises'
import test from 'ava'
import { configFile } from '../support/config-tools.ts'
import { startHaproxy } from '../support/haproxy.ts'
import { startLoad } from '../support/load.ts'
import { startPair } from '../support/pair.ts'
import { startService } from '../support/service.ts'

const settings = { checkEvery: '200ms', delayMs: 2000 }

test.serial(
  'drain: one check takes the server out, and the status shows the HAProxy server state',
  async t => {
    const pair = await startPair({ ...settings, workers: 1 })
    t.teardown(() => pair.stop())
    const operator = pair.operator('A')
    // A person at the same address.
    t.is(await operator.health('http'), 200)
    await operator.until(({ ports }) => ports.http?.checkers.length === 1)
    await operator.run('drain', 'http')
    t.like(await operator.run('wait', 'http'), { ended: 'drained' })
    // On a busy machine, a check can be so late that HAProxy is not listed for a moment.
    const { ports } = await operator.until(({ ports }) => ports.http?.checkers.length === 1)
    const haproxy = ports.http?.checkers[0]
    t.like(haproxy, { address: '127.0.0.1', status: 404 })
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
      startLoad({ url: pair.haproxy.url, clients: 8, pauseMs: 60 }),
      startLoad({ url: pair.haproxy.url, clients: 4, pauseMs: 60, connection: 'one a request' }),
      startLoad({ url: pair.haproxy.httpsUrl, clients: 4, pauseMs: 60 }),
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

// config/proxies.md has these states as a table.
test.serial('maintenance with a stop: the states of the server in each step', async t => {
  const httpCheckInTcpMode = (text: string) =>
    text.replace(
      /(backend https\n +mode tcp\n)/,
      '$1    option httpchk\n    http-check send meth GET uri /healthcheck/https\n    http-check disable-on-404\n',
    )
  const cases = [
    { edit: (text: string) => text, mode: 'https:refuse', drained: 'DOWN' },
    { edit: httpCheckInTcpMode, mode: 'https', drained: 'NOLB' },
  ]
  for (const { edit, mode, drained } of cases) {
    const pair = await startPair({ ...settings, workers: 1, edit })
    t.teardown(() => pair.stop())
    const reach = async (http: string, https: string) => {
      await pair.haproxy.until('http', 'A', http)
      await pair.haproxy.until('https', 'A', https)
    }
    await pair.operator('A').run('drain', 'http')
    await pair.operator('A').run('drain', mode)
    await reach('NOLB', drained)
    await pair.stopService('A')
    await reach('DOWN', 'DOWN')
    await pair.startService('A')
    await pair.operator('A').until(({ ports }) => (ports.http?.checkers[0]?.noticed ?? 0) >= 4)
    const states = await pair.haproxy.states()
    t.is(states.get('http/A'), 'DOWN', 'a 404 does not bring a server back into maintenance')
    t.is(states.get('https/A'), 'DOWN')
    await pair.operator('A').run('resume', 'http')
    await pair.operator('A').run('resume', 'https')
    await reach('UP', 'UP')
  }
})

test.serial('rate limit of config/proxies.md: an address and a token have 100 requests each', async t => {
  const guide = await readFile(configFile('proxies.md'), 'utf8')
  const [, limits = '', table = ''] =
    /```\n(stick-table[^`]*)```[^`]*```\n(backend tokens[^`]*)```/.exec(guide) ?? []
  t.regex(limits, /sc_http_req_rate\(0\) gt 100 /)
  const bind = 'bind "${LISTEN_HTTP}"\n'
  const cases = [
    { limits, token: (n: number) => `Bearer ${n}` },
    { limits: limits.replace('(0) gt 100', '(0) gt 1000'), token: () => 'Bearer same' },
  ]
  // HAProxy counts before it chooses a server, so one service stands for both.
  const service = await startService()
  t.teardown(() => service.stop())
  for (const { limits, token } of cases) {
    const haproxy = await startHaproxy(
      (_, label) => service.port(label),
      settings.checkEvery,
      text => `${text.replace(bind, bind + limits)}\n${table}`.replaceAll('rate(10s)', 'rate(60s)'),
    )
    t.teardown(() => haproxy.stop())
    await haproxy.until('http', 'A', 'UP')
    const ask = (n: number) => fetch(`${haproxy.url}/v1/users`, { headers: { authorization: token(n) } })
    // HAProxy counts the requests of 60 s: on a slow machine, 100 at once can take 10 s.
    const responses = await Promise.all(Array.from({ length: 100 }, (_, n) => ask(n)))
    for (const { status } of responses) t.is(status, 200)
    const response = await ask(100)
    t.is(response.status, 429)
    t.is(response.headers.get('retry-after'), '10')
    t.like(await response.json(), { meta: { status: 429, code: 'too_many_requests' } })
  }
})
