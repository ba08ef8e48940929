// Reloads of a real service under load: new code and settings are applied, and no request is lost.
import { cpSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { folder } from '../support/folder.ts'
import { createClient } from '../support/http.ts'
import { apiKey } from '../support/issuer.ts'
import { type LoadOptions, startLoad } from '../support/load.ts'
import { configFolder, drain, start } from '../support/reloads.ts'
import { runFirst } from '../support/service.ts'
import { atSteadyInterval } from '../support/steady-interval.ts'

type Load = (service: { url: string; httpsUrl: string }) => LoadOptions

const keepAlive: Load = ({ url }) => ({ url })
const oneARequest: Load = ({ url }) => ({ url, connection: 'one a request' })
const overTls: Load = ({ httpsUrl }) => ({ url: httpsUrl })

/** The first one with frequent heartbeats: some arrive in every phase of a worker's exit. */
const loads: readonly [name: string, options: Load, beatMs: number][] = [
  ['keep-alive', keepAlive, 1],
  ['one connection per request', oneARequest, 100],
  ['keep-alive over TLS', overTls, 100],
]

for (const [name, options, beatMs] of loads)
  test.serial(`reload: no request is lost, ${name}`, async t => {
    const { service, operator } = await start(t, { config: { drain, fleet: { beatMs } } })
    const before = await service.workers()
    // With a short pause, so that the clients leave the booting workers a part of the CPU.
    const load = await startLoad({ ...options(service), clients: 8, pauseMs: 10 })
    t.teardown(load.stop)
    for (let reload = 0; reload < 2; reload++) {
      const reply = await operator.run('reload')
      t.is(reply.error, undefined)
      t.deepEqual(
        reply.workers?.map(({ state }) => state),
        ['ready', 'ready'],
      )
      await load.requests(100)
    }
    const { requests, failures } = await load.stop()
    t.deepEqual(failures, {})
    t.log(`${requests} requests, 4 replacements`)
    t.true((await service.workers()).every(pid => !before.includes(pid)))
  })

test.serial('SIGUSR2: triggers a reload', async t => {
  const { service, operator } = await start(t, { workers: 1 })
  const before = await service.workers()
  service.supervisor.kill('SIGUSR2')
  await operator.until(
    ({ workers }) =>
      workers.length === 1 &&
      workers.every(({ pid = 0, state }) => !before.includes(pid) && state === 'ready'),
  )
  t.pass()
})

test.serial('reload: the number of ready workers never decreases', async t => {
  const { operator } = await start(t)
  let reloading = true
  const reload = operator.run('reload').finally(() => {
    reloading = false
  })
  const counts = new Set<number>()
  await atSteadyInterval(10, async () => {
    const { workers } = await operator.status()
    counts.add(workers.filter(({ state }) => state === 'ready').length)
    return !reloading
  })
  await reload
  t.deepEqual(
    [...counts].sort(),
    [2, 3].filter(count => counts.has(count)),
  )
})

test.serial('reload: a concurrent reload is rejected', async t => {
  const { operator } = await start(t, { workers: 1 })
  const first = operator.run('reload')
  const second = operator.run('reload')
  // Both replies name the same command, so both calls resolve with the first reply: the rejection.
  t.regex((await Promise.race([first, second])).error ?? '', /a reload is already running/)
  await operator.until(
    ({ workers }) => workers.length === 1 && workers.every(({ state }) => state === 'ready'),
  )
})

test.serial('reload: a drained port stays drained in the new workers', async t => {
  const { service, operator } = await start(t, { workers: 1 })
  await operator.run('drain', 'http')
  await operator.run('reload')
  t.not((await operator.status()).ports.http?.state, 'serving')
  await operator.until(({ ports }) => ports.http?.state === 'drained')
  const client = createClient(service.url)
  t.is((await client.get('/v1/groups')).headers.connection, 'close')
})

test.serial('reload: takes new keys and drops old ones', async t => {
  const path = folder(t)
  cpSync(configFolder, path, { recursive: true })
  const file = join(path, 'local.json')
  const useKeys = (...names: string[]) =>
    writeFileSync(file, JSON.stringify({ auth: { keys: names.map(name => apiKey(name, 'read', name)) } }))
  useKeys('old')
  const { service, operator } = await start(t, { workers: 1, env: { NODE_CONFIG_DIR: path } })
  // Without keep-alive: a client can use a connection again before it has noticed that a reload has closed it.
  const client = createClient(service.url, false)
  const statuses = async () => {
    const answers = [undefined, 'old', 'new'].map(name =>
      client.get('/v1/users', name === undefined ? {} : { authorization: `Bearer ${name}` }),
    )
    return (await Promise.all(answers)).map(({ status }) => status)
  }
  t.deepEqual(await statuses(), [401, 200, 401])
  for (const [names, expected] of [
    [
      ['old', 'new'],
      [401, 200, 200],
    ],
    [['new'], [401, 401, 200]],
    [[], [200, 200, 200]],
  ] as const) {
    useKeys(...names)
    t.is((await operator.run('reload')).error, undefined)
    t.deepEqual(await statuses(), expected)
  }
  writeFileSync(file, JSON.stringify({ auth: { jwt: { jwks: 'nowhere.json', issuer: 'a', audience: 'a' } } }))
  t.regex(
    (await operator.run('reload')).error ?? '',
    /old workers stay: .*auth\.jwt\.jwks: file:.*nowhere\.json cannot/,
  )
  t.deepEqual(await statuses(), [200, 200, 200])
})

test.serial('reload: workers start although the working directory of the supervisor was deleted', async t => {
  const path = folder(t)
  const cwd = join(path, 'release')
  cpSync(configFolder, join(path, 'config'), { recursive: true })
  // Its settings are in a folder that is relative to it.
  const chdir = `import { mkdirSync } from 'node:fs'
if (process.argv[1].endsWith('supervisor.js')) {
  mkdirSync(${JSON.stringify(cwd)})
  process.chdir(${JSON.stringify(cwd)})
  process.env.NODE_CONFIG_DIR = '../config'
}`
  const { service, operator } = await start(t, { workers: 1, env: runFirst(chdir) })
  const workers = await service.workers()
  rmdirSync(cwd)
  t.is((await operator.run('reload')).error, undefined)
  t.false((await service.workers()).some(pid => workers.includes(pid)))
})
