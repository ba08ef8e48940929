// Reloads that a real service refuses: the old workers stay, and no request is lost.
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { folder } from '../support/folder.ts'
import { createClient } from '../support/http.ts'
import { startLoad } from '../support/load.ts'
import { claimPorts } from '../support/ports.ts'
import { configFolder, drain, start } from '../support/reloads.ts'
import { until } from '../support/until.ts'

test.serial('reload: applies new settings; with invalid ones it fails and the old workers stay', async t => {
  const path = folder(t)
  cpSync(configFolder, path, { recursive: true })
  const { service, operator } = await start(t, { env: { NODE_CONFIG_DIR: path }, config: { drain } })
  // Without keep-alive: a client can use a connection again before it has noticed that a reload has closed it.
  const client = createClient(service.url, false)
  const load = await startLoad({ url: service.url, clients: 4, pauseMs: 20 })
  t.teardown(load.stop)
  const file = join(path, 'local.json')
  const page = await client.get('/v1/groups')

  const hour = 3_600_000
  writeFileSync(
    file,
    JSON.stringify({
      limits: { recordsPerPage: 7 },
      fleet: { beatMs: hour, silentMs: 3 * hour },
      host: '0.0.0.0',
      hosts: ['a.example'],
    }),
  )
  t.is((await operator.run('reload')).error, undefined)
  t.is((await client.get('/v1/users?records_per_page=8')).status, 400)
  // The same records, but another page.
  t.is((await client.get('/v1/groups', { 'if-none-match': String(page.headers.etag) })).status, 200)
  // The service listens on the loopback address until its restart: names of other machines stay unknown.
  for (const host of ['a.example', 'b.example'])
    t.is((await client.get('/v1/users', { host })).status, 400, host)
  // A heartbeat has reported the response: the new workers keep the interval that the supervisor expects.
  await until(async () => {
    const metrics = await fetch(`http://127.0.0.1:${service.port('http') + 1}/metrics`)
    return /^http_responses_total\{[^}]*"4xx"[^}]*\} [1-9]/m.test(await metrics.text())
  })
  const workers = await service.workers()

  for (const [bad, reason] of [
    ['{"limits": {"recordsPerPage": "many"}}', /limits.recordsPerPage/],
    ['{', /local.json/],
  ] as const) {
    writeFileSync(file, bad)
    const { error } = await operator.run('reload')
    t.regex(error ?? '', /the old workers stay/)
    t.regex(error ?? '', reason)
    t.deepEqual(await service.workers(), workers)
  }
  t.deepEqual((await load.stop()).failures, {})
})

test.serial(
  'changed ports: a reload fails, and a service that loses its workers can be started again',
  async t => {
    const path = folder(t)
    cpSync(configFolder, path, { recursive: true })
    const file = join(path, 'local.json')
    const { first, release } = await claimPorts()
    t.teardown(release)
    const ports = (last: number, more: { protocol?: 'http' | 'https'; proxyProtocol?: boolean } = {}) => [
      { label: 'http', port: first, protocol: 'http' as const },
      { label: 'more', port: last, protocol: 'http' as const, ...more },
    ]
    writeFileSync(file, JSON.stringify({ ports: ports(first + 2) }))
    const control = { socket: join(path, 'control.sock') }
    const settings = { stateFile: join(path, 'state.json'), control }
    const { service, operator } = await start(t, {
      workers: 1,
      config: { ports: ports(first + 2), control },
      env: { NODE_CONFIG_DIR: path, NODE_CONFIG: JSON.stringify(settings) },
    })
    const changes = [
      ports(first + 4),
      ports(first + 2).slice(0, 1),
      ports(first + 2, { protocol: 'https' }),
      ports(first + 2, { proxyProtocol: true }),
    ]
    for (const changed of changes) {
      writeFileSync(file, JSON.stringify({ ports: changed, proxies: { trusted: ['127.0.0.1'] } }))
      t.regex(
        (await operator.run('reload')).error ?? '',
        /changed ports require a restart; a reload cannot apply them/,
      )
    }
    for (const pid of await service.workers()) process.kill(pid, 'SIGKILL')
    // pm2 and systemd start the service again after this code, but not after 78.
    t.is(await service.exited, 70)
  },
)

test.serial('reload: code that does not boot is rejected without loss; the next reload works', async t => {
  const code = join(folder(t), 'code.mjs')
  writeFileSync(code, '')
  const { service, operator } = await start(t, {
    env: { NODE_OPTIONS: `--import=${code}` },
    config: { drain, fleet: { bootMs: 20_000 } },
  })
  const load = await startLoad({ url: service.url, clients: 4, pauseMs: 100 })
  t.teardown(load.stop)
  const workers = await service.workers()
  for (const bad of ['process.exit(1)', 'await new Promise(() => setInterval(() => {}, 1000))']) {
    writeFileSync(code, bad)
    const { error } = await operator.run('reload')
    t.regex(error ?? '', /the old workers stay: worker (exited with code 1|did not listen within 20000 ms)/)
    t.deepEqual(await service.workers(), workers)
    t.is(await operator.health('http'), 200)
  }
  writeFileSync(code, '')
  t.is((await operator.run('reload')).error, undefined)
  t.deepEqual((await load.stop()).failures, {})
})

test.serial('reload: an error names the old workers that are left, if some were replaced', async t => {
  const code = join(folder(t), 'code.mjs')
  writeFileSync(code, '')
  const { service, operator } = await start(t, { env: { NODE_OPTIONS: `--import=${code}` } })
  const workers = await service.workers()
  // The first process that loads it creates the folder.
  const bad = `import { mkdirSync } from 'node:fs'
try { mkdirSync(${JSON.stringify(`${code}.first`)}) } catch { process.exit(1) }`
  writeFileSync(code, bad)
  const { error } = await operator.run('reload')
  t.is(error, 'the reload failed when 1 of 2 old workers were left: worker exited with code 1')
  t.is((await service.workers()).filter(pid => workers.includes(pid)).length, 1)
})

test.serial('reload: a stop ends it, and the reply does not say that workers stay', async t => {
  const { service, operator } = await start(t, {
    // A watch that does not end by its time, and time for the reply.
    config: { reload: { watchMs: 600_000 }, drain: { delayMs: 3000 } },
  })
  const reload = operator.run('reload')
  await operator.until(({ watch }) => watch !== undefined)
  service.supervisor.kill('SIGTERM')
  t.is((await reload).error, 'the reload failed: the service is stopping')
  t.is(await service.exited, 0)
})
