// The example files for operators in config/: each one is checked by its own tool, and metric names against /metrics.
import { spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { findProgram } from '../../src/cli/private-servers/programs.ts'
import { root } from '../../src/config/root.ts'
import { configFile, runTool } from '../support/config-tools.ts'
import { readDocument } from '../support/documents.ts'
import { startHaproxy } from '../support/haproxy.ts'
import { loggedClient } from '../support/logged-client.ts'
import { claimPorts, listenOnFreePort } from '../support/ports.ts'
import { ask, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const service = await startService({
  config: { proxies: { trusted: ['127.0.0.1'] }, log: { level: 'info' } },
})
const folder = await mkdtemp(join(tmpdir(), 'users-api-kit-'))

interface Dashboard {
  templating: { list: { query: string }[] }
  panels: { title: string; targets: { expr: string }[] }[]
}
const dashboard: Dashboard = JSON.parse(await readFile(configFile('monitoring/grafana.json'), 'utf8'))
const queries = dashboard.panels.flatMap(panel => panel.targets.map(target => target.expr))
const variables = dashboard.templating.list.map(({ query }) => query)
const alerts = await readFile(configFile('monitoring/alerts.yml'), 'utf8')

test.after.always(async () => {
  await service.stop()
  await rm(folder, { recursive: true })
})

test('HAProxy: passes on the address of the client, whatever the client sends', async t => {
  const haproxy = await startHaproxy((_, label) => service.port(label), '100ms')
  t.teardown(haproxy.stop)
  await haproxy.until('http', 'A', 'UP')
  t.is(await loggedClient(service, haproxy.url), '127.0.0.2')
  t.is(await loggedClient(service, service.url), '127.0.0.2', 'the peer is not trusted')
})

test('HAProxy: with the lines for compression and CORS, a page in a browser can send the ETag that it has received', async t => {
  const [, lines = ''] = /^```\nbind [^\n]*\n(.*?)^```/ms.exec(readDocument('config/proxies.md')) ?? []
  const haproxy = await startHaproxy(
    (_, label) => service.port(label),
    '100ms',
    text => text.replace('frontend http\n', `$&${lines}`),
  )
  t.teardown(haproxy.stop)
  await haproxy.until('http', 'A', 'UP')
  const created = await fetch(`${haproxy.url}/v1/groups`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Accept-Encoding': 'gzip' },
    body: JSON.stringify({ name: 'Compressed' }),
  })
  t.is(created.headers.get('content-encoding'), 'gzip')
  t.is(created.headers.get('access-control-allow-origin'), 'https://app.example.com')
  const etag = created.headers.get('etag') ?? ''
  t.regex(etag, /^W\//)

  const url = `${haproxy.url}${created.headers.get('location')}`
  const preflight = { 'Access-Control-Request-Method': 'DELETE' }
  const allowed = await fetch(url, { method: 'OPTIONS', headers: preflight })
  t.is(allowed.status, 204)
  t.regex(allowed.headers.get('access-control-allow-headers') ?? '', /\bIf-Match\b/)
  for (const [tag, status] of [
    ['W/"another"', 412],
    [`W/"another", ${etag}`, 200],
  ] as const) {
    const deleted = await fetch(url, { method: 'DELETE', headers: { 'If-Match': tag } })
    t.is(deleted.status, status, tag)
  }
})

test('HAProxy: tells clients for how long it keeps an idle connection', async t => {
  for (const file of ['haproxy.cfg', 'cluster/haproxy.cfg', 'container/haproxy.cfg']) {
    const text = await readFile(configFile(file), 'utf8')
    const [, kept] = /timeout http-keep-alive (\d+)s\n/.exec(text) ?? []
    t.true(text.includes(`http-response replace-header Keep-Alive .* timeout=${kept}\n`), file)
  }
  const haproxy = await startHaproxy((_, label) => service.port(label), '100ms')
  t.teardown(haproxy.stop)
  await haproxy.until('http', 'A', 'UP')
  t.is((await fetch(`${haproxy.url}/v1/users`)).headers.get('keep-alive'), 'timeout=60')
})

test('HAProxy: accepts its configurations', async t => {
  const inCluster = (await readdir(configFile('cluster'))).filter(name => name.startsWith('haproxy'))
  t.is(inCluster.length, 3)
  for (const file of ['haproxy.cfg', ...inCluster.map(name => `cluster/${name}`)])
    await runTool(t, 'haproxy', ['-c', '-f', configFile(file)])
  t.pass()
})

for (const { file, listen, nodes, ports } of [
  {
    file: 'haproxy.cfg',
    listen: ['LISTEN_HTTP', 'LISTEN_HTTPS'],
    nodes: ['A', 'B'],
    ports: ['HTTP', 'HTTP_CHECK', 'HTTPS', 'HTTPS_CHECK'],
  },
  {
    file: 'cluster/haproxy.cfg',
    listen: ['LISTEN', 'LISTEN_PAGE'],
    nodes: ['NODE1', 'NODE2', 'NODE3'],
    ports: ['PORT', 'CHECK'],
  },
])
  test(`HAProxy: ${file} repeats only a GET, and a POST with an Idempotency-Key, if a node ends`, async t => {
    let ended = 0
    /** A node that passes its checks. One that `ends` closes every other connection without a response. */
    const startNode = async (ends: boolean) => {
      const node = createServer((request, response) => {
        if (!ends || request.url === '/healthcheck/http') return void response.end()
        ended++
        request.socket.destroy()
      })
      const port = await listenOnFreePort(node)
      t.teardown(() => node.close())
      return port
    }
    const claim = await claimPorts()
    t.teardown(claim.release)
    const env: NodeJS.ProcessEnv = { ...process.env, STATS_SOCKET: join(folder, `${claim.first}.sock`) }
    for (const [index, name] of listen.entries()) env[name] = `127.0.0.1:${claim.first + index}`
    for (const [index, name] of nodes.entries()) {
      const port = await startNode(index === 0)
      env[`${name}_ADDRESS`] = '127.0.0.1'
      for (const one of ports) env[`${name}_${one}`] = String(port)
    }
    const haproxy = spawn(findProgram(['haproxy']) ?? '', ['-db', '-f', configFile(file)], {
      env,
      stdio: 'ignore',
    })
    t.teardown(() => haproxy.kill('SIGTERM'))
    const url = `http://127.0.0.1:${claim.first}`
    await until(async () => (await ask(url))?.status === 200)

    /** @returns the statuses of so many requests that each node gets some */
    const statuses = async (method: string, headers: Record<string, string> = {}) => {
      const before = ended
      const responses = await Promise.all(
        Array.from({ length: 30 }, () =>
          fetch(url, { method, headers: { ...headers, connection: 'close' } }),
        ),
      )
      t.true(ended > before, 'the first node got none')
      return new Set(responses.map(({ status }) => status))
    }
    t.deepEqual(await statuses('GET'), new Set([200]))
    t.deepEqual(await statuses('POST', { 'Idempotency-Key': 'one' }), new Set([200]))
    t.true((await statuses('POST')).has(502))
    t.true((await statuses('PATCH', { 'Idempotency-Key': 'one' })).has(502))
  })

test('HAProxy: container/haproxy.cfg repeats the same requests', async t => {
  const [first, ...others] = await Promise.all(
    ['haproxy.cfg', 'cluster/haproxy.cfg', 'container/haproxy.cfg'].map(async file => {
      const text = await readFile(configFile(file), 'utf8')
      return text.match(/^ +(?:retries|option redispatch|retry-on|http-request disable-l7-retry) .*$/gm)
    }),
  )
  t.is(first?.length, 4)
  for (const lines of others) t.deepEqual(lines, first)
})

test('nginx: accepts nginx.conf, and skips an instance that is down', async t => {
  const claim = await claimPorts()
  t.teardown(claim.release)
  const file = join(folder, 'nginx.conf')
  const text = await readFile(configFile('nginx.conf'), 'utf8')
  await writeFile(
    file,
    text
      .replace('10.0.0.1:80', `127.0.0.1:${claim.first + 1}`)
      .replace('10.0.0.2:80', `127.0.0.1:${service.port('http')}`)
      .replace('listen 80', `listen 127.0.0.1:${claim.first}`),
  )
  const args = ['-e', 'stderr', '-p', folder, '-c', file, '-g', 'daemon off; pid nginx.pid;']
  if ((await runTool(t, 'nginx', ['-t', ...args])) === undefined) {
    t.pass()
    return
  }
  const nginx = spawn(findProgram(['nginx']) ?? '', args, { stdio: 'ignore' })
  t.teardown(() => nginx.kill('SIGTERM'))
  const url = `http://127.0.0.1:${claim.first}/v1/users`
  await until(async () => nginx.exitCode !== null || (await ask(url)) !== undefined)
  t.is(nginx.exitCode, null)
  for (let requests = 0; requests < 10; requests++) t.is((await ask(url))?.status, 200)
  t.is(await loggedClient(service, `http://127.0.0.1:${claim.first}`), '127.0.0.2')
  const named = await fetch(url, { headers: { 'Request-Id': 'of-the-client' } })
  t.is(named.headers.get('request-id'), 'of-the-client')
  const longest = `${url}?search=${'+'.repeat(8192 - '/v1/users?search='.length)}`
  t.is((await fetch(longest)).status, 200, 'limits.urlBytes')
  t.is((await fetch(url, { headers: { 'x-long': 'x'.repeat(15_000) } })).status, 200, 'limits.headerBytes')
})

test('systemd: accepts the units', async t => {
  const files: string[] = []
  for (const name of ['users-api.service', 'users-api.socket']) {
    const text = await readFile(configFile(name), 'utf8')
    const file = join(folder, name)
    await writeFile(file, text.replaceAll('/opt/users-api', root.replace(/\/$/, '')))
    files.push(file)
  }
  const output = await runTool(t, 'systemd-analyze', ['verify', ...files])
  // systemd-analyze exits with 0 even if a setting is unknown.
  t.notRegex(output ?? '', /users-api\.(service|socket)/)
})

test('systemd: a start of the service starts its socket, too', async t => {
  t.regex(await readFile(configFile('users-api.service'), 'utf8'), /^Wants=(.* )?users-api\.socket( |$)/m)
})

test('Prometheus: accepts its configuration, the rules and every query of the dashboard', async t => {
  await runTool(t, 'promtool', ['check', 'config', configFile('monitoring/prometheus.yml')])
  const rules = queries.map((expr, index) => ({
    record: `query_${index}`,
    expr: expr.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*'),
  }))
  const file = join(folder, 'queries.json')
  await writeFile(file, JSON.stringify({ groups: [{ name: 'queries', rules }] }))
  await runTool(t, 'promtool', ['check', 'rules', file])
  t.true(rules.length > 10)
})

test('alert rules: fire after their thresholds and not before', async t => {
  const series = (name: string, values: string) => ({ series: name, values })
  const alarm = (alertname: string, eval_time: string, labels: object | null) => ({
    alertname,
    eval_time,
    exp_alerts: labels === null ? [] : [{ exp_labels: labels }],
  })
  const page = { severity: 'page', instance: 'a:81' }
  const tests = [
    {
      interval: '1m',
      input_series: [
        series('up{job="users-api", instance="a:81"}', '1x10 0x10'),
        series('up{job="users-api", instance="b:81"}', '1x10 0 1 0 1 0 1 0 1 0 1'),
        series(
          'process_cpu_seconds_total{job="users-api", instance="b:81"}',
          '1+1x10 _ 1.1 _ 1 _ 0.9 _ 0.8 _ 0.9',
        ),
        series('users_api_worker_database_up{instance="a:81", worker="1"}', '0x20'),
        series('users_api_worker_database_up{instance="a:81", worker="2"}', '1x10 0x10'),
        series('http_responses_total{instance="a:81", port="http", code="2xx"}', '0+99x20'),
        series('http_responses_total{instance="a:81", port="http", code="5xx"}', '0x10 0+99x10'),
        series('users_api_changes_waiting_seconds{instance="a:81", worker="1"}', '10x10 11x10'),
        series('users_api_worker_cache_up{instance="a:81", worker="1"}', '1x10 0x20'),
        series('users_api_worker_cache_up{instance="a:81", worker="2"}', '1x30'),
        series('users_api_lost_workers_total{instance="a:81"}', '0x10 1 2 3 4 5x20'),
        series('users_api_port_state{instance="a:81", port="http", state="drained"}', '1x90'),
        series('users_api_port_state{instance="a:81", port="http", state="serving"}', '0x90'),
        series('users_api_certificate_expiry_seconds{instance="a:81", port="https"}', '604860-60x90'),
        series('users_api_certificate_expiry_seconds{instance="b:81", port="https"}', '700000-60x90'),
      ],
      alert_rule_test: [
        alarm('UsersApiDown', '10m', null),
        alarm('UsersApiDown', '15m', { ...page, job: 'users-api' }),
        alarm('UsersApiRestarts', '16m', null),
        alarm('UsersApiRestarts', '18m', { ...page, instance: 'b:81', job: 'users-api' }),
        alarm('UsersApiNoDatabase', '10m', null),
        alarm('UsersApiNoDatabase', '15m', page),
        alarm('UsersApiErrors', '10m', null),
        alarm('UsersApiErrors', '20m', page),
        alarm('UsersApiChangesWaiting', '10m', null),
        alarm('UsersApiChangesWaiting', '14m', { severity: 'ticket', instance: 'a:81' }),
        alarm('UsersApiCacheAway', '20m', null),
        alarm('UsersApiCacheAway', '22m', { severity: 'ticket', instance: 'a:81' }),
        alarm('UsersApiLosesWorkers', '12m', null),
        alarm('UsersApiLosesWorkers', '16m', { severity: 'ticket', instance: 'a:81' }),
        alarm('UsersApiForgottenMaintenance', '59m', null),
        alarm('UsersApiForgottenMaintenance', '61m', { severity: 'ticket', instance: 'a:81', port: 'http' }),
        alarm('UsersApiCertificateExpires', '61m', null),
        alarm('UsersApiCertificateExpires', '62m', { severity: 'ticket', instance: 'a:81', port: 'https' }),
      ],
    },
  ]
  const file = join(folder, 'alerts-test.json')
  // Without annotations: the test compares only the alerts and their labels.
  const bare = join(folder, 'alerts.yml')
  await writeFile(bare, alerts.replaceAll(/^ {8}annotations:\n.*\n/gm, ''))
  await writeFile(file, JSON.stringify({ rule_files: [bare], tests }))
  await runTool(t, 'promtool', ['test', 'rules', file])
  t.notRegex(await readFile(bare, 'utf8'), /annotations/)
})

test('alerts: a certificate expires in some days, or has expired', async t => {
  const expected = (port: string, state: string) => ({
    exp_labels: { severity: 'ticket', instance: 'a:81', port },
    exp_annotations: {
      summary: `the certificate of port ${port} of a:81 ${state}: replace its files, which are read again within a minute`,
    },
  })
  const tests = [
    {
      interval: '1m',
      input_series: [
        { series: 'users_api_certificate_expiry_seconds{instance="a:81", port="old"}', values: '-90000x90' },
        { series: 'users_api_certificate_expiry_seconds{instance="a:81", port="soon"}', values: '180000x90' },
      ],
      alert_rule_test: [
        {
          alertname: 'UsersApiCertificateExpires',
          eval_time: '62m',
          exp_alerts: [expected('old', 'has expired'), expected('soon', 'expires in 2d 2h 0m 0s')],
        },
      ],
    },
  ]
  const file = join(folder, 'certificate-test.json')
  await writeFile(file, JSON.stringify({ rule_files: [configFile('monitoring/alerts.yml')], tests }))
  await t.notThrowsAsync(runTool(t, 'promtool', ['test', 'rules', file]))
})

test('metrics: every metric in the dashboard and the rules exists', async t => {
  await ask(`${service.url}/v1/users/1?include=groups`)
  const text = (await ask(`${service.controlUrl}/metrics`))?.text ?? ''
  const known = new Set(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
      type === 'histogram' ? ['_bucket', '_sum', '_count'].map(part => name + part) : [name],
    ),
  )
  const named = new Set(
    [...queries, ...variables, alerts].flatMap(
      query => query.match(/\b(http|users_api|process|nodejs)_\w+/g) ?? [],
    ),
  )
  t.true(named.size >= 10)
  for (const name of named) t.true(known.has(name), name)
})

test('config/: no example file can be loaded as settings, whatever the host name', async t => {
  // node-config loads every file here that is named like the host and has a known extension.
  const files = await readdir(configFile(''))
  t.deepEqual(
    files
      .filter(
        name => !/\.(cfg|conf|md|service|socket)$|^(cluster|container|monitoring|local\.json)$/.test(name),
      )
      .sort(),
    ['custom-environment-variables', 'default', 'development', 'production', 'test'].map(
      name => `${name}.json`,
    ),
  )
})
