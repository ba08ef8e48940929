// A real HAProxy that sends PROXY headers: the log has the address of the client, and a rolling restart of two instances
// loses no request.
import http from 'node:http'
import https from 'node:https'
import test from 'ava'
import { startHaproxy } from '../support/haproxy.ts'
import { startLoad } from '../support/load.ts'
import { loggedClient } from '../support/logged-client.ts'
import { startPair, withServerOption } from '../support/pair.ts'
import { claimPorts } from '../support/ports.ts'
import { startService } from '../support/service.ts'

for (const option of ['send-proxy', 'send-proxy-v2'])
  test.serial(`${option}: plain and over TLS, each client has its own address in the log`, async t => {
    const claim = await claimPorts()
    t.teardown(claim.release)
    const service = await startService({
      config: {
        ports: [
          { label: 'http', port: claim.first, protocol: 'http', proxyProtocol: true },
          { label: 'https', port: claim.first + 2, protocol: 'https', proxyProtocol: true },
        ],
        proxies: { trusted: ['127.0.0.1'] },
        log: { level: 'info' },
      },
    })
    t.teardown(service.stop)
    // The checks of the https backend open connections to the data port.
    const haproxy = await startHaproxy(
      (_, label) => service.port(label),
      '100ms',
      text => withServerOption(text, option).replaceAll(/ port "\$\{[AB]_HTTPS_CHECK\}"/g, ''),
    )
    t.teardown(haproxy.stop)
    for (const backend of ['http', 'https'] as const) await haproxy.until(backend, 'A', 'UP')

    const addresses = ['127.0.0.2', '127.0.0.3', '127.0.0.4']
    const keepAlive = { keepAlive: true, maxSockets: 1 }
    for (const [url, Agent] of [
      [haproxy.url, http.Agent],
      [haproxy.httpsUrl, https.Agent],
    ] as const) {
      const agents = addresses.map(localAddress => new Agent({ ...keepAlive, localAddress }))
      for (let round = 0; round < 3; round++)
        for (const [at, agent] of agents.entries())
          t.is(await loggedClient(service, url, agent), addresses[at])
      for (const agent of agents) agent.destroy()
    }
    t.false(service.log().includes('"refused"'), 'checks are no errors')
  })

test.serial(
  'stop: the connections that workers open to empty the queue of a port are not in the log',
  async t => {
    const claim = await claimPorts()
    t.teardown(claim.release)
    const service = await startService({
      workers: 4,
      config: {
        ports: [{ label: 'http', port: claim.first, protocol: 'http', proxyProtocol: true }],
        proxies: { trusted: ['192.0.2.1'] },
        log: { level: 'info' },
      },
    })
    t.is(await service.stop(), 0)
    t.deepEqual(service.logLines(/"refused"/), [])
  },
)

test.serial('send-proxy-v2: no request is lost in a rolling restart', async t => {
  const pair = await startPair({ checkEvery: '200ms', delayMs: 5000, proxyProtocol: true })
  t.teardown(() => pair.stop())
  const loads = await Promise.all([
    startLoad({ url: pair.haproxy.url, clients: 8, pauseMs: 60 }),
    startLoad({ url: pair.haproxy.httpsUrl, clients: 8, pauseMs: 60 }),
    startLoad({ url: pair.haproxy.httpsUrl, clients: 4, pauseMs: 60, connection: 'one a request' }),
  ])
  for (const load of loads) t.teardown(load.stop)
  for (const name of ['A', 'B'] as const) await pair.restart(name, 'socket')
  for (const load of loads) {
    const { requests, failures } = await load.stop()
    t.deepEqual(failures, {})
    t.log(`${requests} requests`)
  }
})
