// Reloads with a watch under load: a new version that fails does not replace the old one, and one that is only slower does.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { folder } from '../support/folder.ts'
import { startLoad } from '../support/load.ts'
import { createOperator } from '../support/operator.ts'
import { createDatabase, type ServiceOptions, startService } from '../support/service.ts'

const database = await createDatabase()

/** So long that no watch ends by its time. */
const FOREVER_MS = 600_000

/** Code that runs at the end of each response to a PATCH request; `count` is their number. */
const atEachPatch = (code: string) => `
  import http from 'node:http'
  const { end } = http.ServerResponse.prototype
  let count = 0
  http.ServerResponse.prototype.end = function (...args) {
    if (this.req.method !== 'PATCH') return end.apply(this, args)
    count++
    ${code}
    return end.apply(this, args)
  }`

/** A service whose next workers run what `install` gets. */
async function start(t: ExecutionContext, watchMs: number, config: ServiceOptions['config'] = {}) {
  const code = join(folder(t), 'code.mjs')
  const install = (text: string) => writeFileSync(code, text)
  install('')
  const service = await startService({
    database,
    workers: 2,
    env: { NODE_OPTIONS: `--import=${code}` },
    // On a loaded machine, a client can pause for longer than a second between two requests on its connection.
    config: { reload: { watchMs }, fleet: { beatMs: 100 }, drain: { idleMs: 3000 }, ...config },
  })
  t.teardown(() => service.stop())
  return { service, operator: createOperator(service), install }
}

for (const [share, everyNth] of [
  ['5 %', 20],
  ['100 %', 1],
] as const)
  test.serial(
    `watch: a version that answers 500 to ${share} of a route is rejected with its figures`,
    async t => {
      const { service, operator, install } = await start(t, FOREVER_MS, {
        fleet: { beatMs: 100, memoryBytes: 300 * 2 ** 20 },
      })
      const before = await service.workers()
      const load = await startLoad({ url: service.url, clients: 8, connection: 'one a request', pauseMs: 10 })
      t.teardown(load.stop)
      // Its worker uses too much memory as well, and retires because of its responses.
      const memory = 'globalThis.kept = Buffer.alloc(300 * 2 ** 20, 1)'
      install(`${memory}\n${atEachPatch(`if (count % ${everyNth} === 0) this.statusCode = 500`)}`)
      const { error = '' } = await operator.run('reload')
      const figures =
        /the old workers stay: the first new worker answered 5xx, or nothing, to (\d+) of \d+ requests, the old ones to 0 of \d+ \(http \/v1\/groups\/:group_id\)/
      t.regex(error, figures)
      await operator.until(({ workers }) => workers.length === 2)
      t.deepEqual(await service.workers(), before)
      // The old workers answer every request from now on.
      const failed = load.tally.failed
      await load.requests(100)
      const { requests, failures, failed: failedAtEnd } = await load.stop()
      t.is(failedAtEnd, failed)
      t.deepEqual(Object.keys(failures), ['500'])
      t.deepEqual(service.logLines(/worker exceeds/), [])
      t.log(`${failed} of ${requests} requests got 500; ${error}`)
    },
  )

test.serial('watch: a version that leaves some requests without a response is rejected', async t => {
  const { service, operator, install } = await start(t, FOREVER_MS, { drain: { deadlineMs: 3000 } })
  const before = await service.workers()
  const load = await startLoad({ url: service.url, clients: 32, connection: 'one a request', pauseMs: 10 })
  t.teardown(load.stop)
  install(atEachPatch('if (count % 20 === 0) return this'))
  const { error = '' } = await operator.run('reload')
  t.regex(
    error,
    /the first new worker answered 5xx, or nothing, to \d+ of \d+ requests, the old ones to 0 of/,
  )
  // It is still retiring, and is none of the old ones.
  install('process.exit(1)')
  t.is(
    (await operator.run('reload')).error,
    'the reload failed, the old workers stay: worker exited with code 1',
  )
  t.deepEqual(await service.workers(), before)
  await load.requests(100)
  const { requests, failed, failures } = await load.stop()
  // The connections of these requests end with their worker.
  t.true(failed > 0)
  t.deepEqual(Object.keys(failures), ['socket hang up'])
  t.log(`${failed} of ${requests} requests had no response; ${error}`)
})

for (const [name, code, reason] of [
  ['exits', 'process.exit(1)', /worker exited with code 1/],
  [
    'hangs',
    'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
    /worker sent no message for 10000 ms/,
  ],
] as const)
  test.serial(`watch: a version that ${name} after some requests is rejected`, async t => {
    const { service, operator, install } = await start(t, FOREVER_MS, {
      fleet: { beatMs: 100, silentMs: 10_000 },
    })
    const before = await service.workers()
    const load = await startLoad({ url: service.url, clients: 8, connection: 'one a request', pauseMs: 50 })
    t.teardown(load.stop)
    install(atEachPatch(`if (count === 50) ${code}`))
    const { error = '' } = await operator.run('reload')
    t.regex(error, reason)
    t.regex(error, /the old workers stay/)
    t.deepEqual(await service.workers(), before)
    const { requests, failed } = await load.stop()
    t.true(failed <= 8, 'one request of each client was in flight')
    t.log(`${failed} of ${requests} requests lost`)
  })

for (const [name, code] of [
  ['is slower', atEachPatch('if (count >= 0) return void setTimeout(() => end.apply(this, args), 10)')],
  ['uses more memory', 'globalThis.kept = Buffer.alloc(100 * 2 ** 20, 1)'],
] as const)
  test.serial(`watch: a version that ${name} is no reason to give up`, async t => {
    const { service, operator, install } = await start(t, 5000)
    const before = await service.workers()
    const load = await startLoad({ url: service.url, clients: 8, connection: 'one a request', pauseMs: 50 })
    t.teardown(load.stop)
    install(code)
    const reload = operator.run('reload')
    const { watch, workers } = await operator.until(status => (status.watch?.fresh.responses ?? 0) > 0)
    t.is(workers.length, 3)
    t.false(before.includes(watch?.pid ?? 0))
    t.is((await reload).error, undefined)
    t.true((await service.workers()).every(pid => !before.includes(pid)))
    t.deepEqual((await load.stop()).failures, {})
  })

test.serial('watch: a node without requests goes on after the time of the watch', async t => {
  const { service, operator } = await start(t, 500)
  const before = await service.workers()
  t.is((await operator.run('reload')).error, undefined)
  t.true((await service.workers()).every(pid => !before.includes(pid)))
})
