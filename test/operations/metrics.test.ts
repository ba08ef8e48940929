// The metrics and the history of a control port agree with the traffic.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { createOperator } from '../support/operator.ts'
import { connect } from '../support/raw.ts'
import { ask, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const service = await startService({ workers: 2, env: { NODE_NAME: 'n-1' } })
test.after.always(() => service.stop())

const get = async (path: string) => {
  const response = await fetch(`${service.controlUrl}${path}`)
  return { response, text: await response.text() }
}

/** Returns every sample of /metrics; the key is the name with its labels as printed. */
async function samples(): Promise<Map<string, number>> {
  const { text } = await get('/metrics')
  const lines = text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map(line => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  )
}

/** Polls the metrics until `reached` returns true. */
async function untilSamples(reached: (now: Map<string, number>) => boolean): Promise<Map<string, number>> {
  return until(async () => {
    const now = await samples()
    return reached(now) && now
  })
}

test('metrics: count the responses of all workers', async t => {
  const good = '/v1/users'
  const bad = '/v1/users?nonsense=1'
  for (const path of [...Array(20).fill(good), ...Array(7).fill(bad)]) await fetch(`${service.url}${path}`)
  const workersOf = (all: Map<string, number>) =>
    [...all.keys()].filter(name => name.startsWith('users_api_worker_resident_memory_bytes'))
  const now = await untilSamples(
    all =>
      all.get('http_request_duration_seconds_count{port="http",route="/v1/users"}') === 27 &&
      workersOf(all).length === 2,
  )
  t.is(now.get('http_responses_total{port="http",route="/v1/users",code="2xx"}'), 20)
  t.is(now.get('http_responses_total{port="http",route="/v1/users",code="4xx"}'), 7)
  t.is(now.get('http_request_duration_seconds_bucket{le="+Inf",port="http",route="/v1/users"}'), 27)
  t.is(now.get('users_api_port_state{port="http",state="serving"}'), 1)
})

test('metrics: count the responses of each route, and those without one', async t => {
  const id = '00000000-none'
  for (const path of [
    '/v1/users/1',
    '/v1/users/2?include=groups',
    `/v1/${id}`,
    '/v1/users/x/y/z',
    '/v1/docs',
  ])
    await fetch(`${service.url}${path}`)
  await fetch(`${service.url}/v1/groups/1`, { method: 'POST' })
  const count = (all: Map<string, number>, route: string, code: string) =>
    all.get(`http_responses_total{port="http",route="${route}",code="${code}"}`)
  const now = await untilSamples(
    all =>
      count(all, 'none', '4xx') === 3 &&
      count(all, '/v1/users/:user_id', '4xx') === 2 &&
      count(all, '/v1/docs', '2xx') === 1,
  )
  t.is(now.get('http_request_duration_seconds_count{port="http",route="none"}'), 3)
  t.false([...now.keys()].some(name => name.includes(id)))
})

test('metrics: the duration of responses that wait for changes is not counted', async t => {
  const path = '/v1/changes?after=latest'
  await fetch(`${service.url}${path}`)
  await fetch(`${service.url}${path}&wait=1`)
  const reader = await connect(service.port('http'))
  reader.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n`)
  await reader.until(/retry: /)
  reader.socket.resetAndDestroy()
  const labels = 'port="http",route="/v1/changes"'
  const now = await untilSamples(
    all =>
      all.get(`http_responses_total{${labels},code="2xx"}`) === 2 &&
      all.get(`http_responses_total{${labels},code="aborted"}`) === 1,
  )
  t.is(now.get(`http_request_duration_seconds_count{${labels}}`), 1)
})

test('metrics and status: the name of the node and its version', async t => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  t.is((await samples()).get(`users_api_build_info{node="n-1",version="${version}"}`), 1)
  const status = JSON.parse((await get('/status')).text)
  t.like(status, { node: 'n-1', version })
  t.true(Math.abs(Date.now() - Date.parse(status.started)) < 300_000)
})

test('metrics: valid text format, each metric with a type', async t => {
  const { response, text } = await get('/metrics')
  t.regex(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/)
  const described = new Set(
    [...text.matchAll(/^# TYPE (\S+) (counter|gauge|histogram|summary)$/gm)].map(([, name]) => name),
  )
  t.true(described.size > 15)
  for (const line of text.split('\n').filter(one => one !== '' && !one.startsWith('#'))) {
    t.regex(line, /^[a-z_]+[a-z0-9_]*(\{[^}]*\})? (-?[0-9.e+-]+|NaN)$/i)
    const name = line.split(/[{ ]/)[0] ?? ''
    t.true(described.has(name) || described.has(name.replace(/_(bucket|sum|count)$/, '')), name)
  }
})

test('history: one series per port, all of the same length', async t => {
  const { text } = await get('/history')
  const { interval_ms, ports, cache, pool, memory_bytes } = JSON.parse(text)
  t.is(interval_ms, 1000)
  t.deepEqual(Object.keys(ports), Object.keys(JSON.parse((await get('/status')).text).ports))
  const { length } = cache.hit_ratio
  for (const series of Object.values(ports.http)) t.is(Array.isArray(series) ? series.length : -1, length)
  t.true(pool.max > 0)
  t.is(Object.keys(memory_bytes.workers).length, 2)
})

test('control ports: read-only, every method but GET and HEAD is rejected', async t => {
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
    for (const path of ['/', '/status', '/metrics', '/healthcheck/http']) {
      const response = await fetch(`${service.controlUrl}${path}`, { method })
      t.is(response.status, 405)
      t.is(response.headers.get('allow'), 'GET, HEAD')
    }
})

test('metrics: count the responses that a worker sends before its end', async t => {
  // A heartbeat comes only after a change of the desired state.
  const fleet = { beatMs: 60_000, silentMs: 200_000 }
  // On a slow machine, the new worker boots for longer than a request may take to arrive by default.
  const replaced = await startService({ config: { fleet, timeouts: { headersMs: 60_000 } } })
  t.teardown(() => replaced.stop())
  const operator = createOperator(replaced)
  const client = await connect(replaced.port('http'))
  client.write('GET /v1/users HTTP/1.1\r\nHost: localhost\r\n')
  const reload = operator.run('reload')
  await operator.until(({ workers }) => workers.some(({ state }) => state === 'retiring'))
  t.regex(await client.ask('\r\n'), /^HTTP\/1.1 200/)
  t.is((await reload).error, undefined)
  const metrics = await ask(`${replaced.controlUrl}/metrics`)
  t.regex(metrics?.text ?? '', /^http_responses_total\{port="http",route="\/v1\/users",code="2xx"\} 1$/m)
})
