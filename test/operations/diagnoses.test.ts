// The commands heap-snapshot and cpu-profile: files of each process, while the service goes on.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import test from 'ava'
import { startLoad } from '../support/load.ts'
import { createOperator, type Reply } from '../support/operator.ts'
import { runFirst, startService } from '../support/service.ts'

const folder = mkdtempSync(join(tmpdir(), 'users-api-diagnoses-'))
const silentMs = 3000
/** In each process, a snapshot takes longer than a worker may be silent. */
const slowSnapshots = `
  import { syncBuiltinESMExports } from 'node:module'
  import v8 from 'node:v8'
  const { writeHeapSnapshot } = v8
  v8.writeHeapSnapshot = file => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${silentMs + 1000})
    return writeHeapSnapshot(file)
  }
  syncBuiltinESMExports()`
const service = await startService({
  workers: 2,
  env: runFirst(slowSnapshots),
  config: { stateFile: join(folder, 'state.json'), fleet: { beatMs: 100, silentMs } },
})
const operator = createOperator(service)
test.after.always(async () => {
  await service.stop()
  rmSync(folder, { recursive: true })
})

function fileOf({ path, error }: Reply): string {
  if (path === undefined) throw new Error(error)
  return path
}
const modeOf = (file: string) => (statSync(file).mode & 0o777).toString(8)

test.serial(
  'heap-snapshot: of a worker and of the supervisor, and no worker is killed for its silence',
  async t => {
    const workers = await service.workers()
    for (const pid of [workers[0] ?? 0, service.supervisor.pid ?? 0]) {
      const file = fileOf(await operator.run('heap-snapshot', `${pid}`))
      t.is(modeOf(file), '600')
      t.is(modeOf(dirname(file)), '700')
      t.is(dirname(file), join(folder, 'diagnostics'))
      t.truthy(JSON.parse(readFileSync(file, 'utf8')).snapshot.node_count)
    }
    t.deepEqual(await service.workers(), workers)
  },
)

test.serial('cpu-profile: the worker goes on serving, and a second file is refused meanwhile', async t => {
  const [pid = 0] = await service.workers()
  const load = await startLoad({ url: service.url, clients: 2, pauseMs: 10 })
  t.teardown(load.stop)
  const profile = operator.run('cpu-profile', `${pid}:2`)
  const { error } = await operator.run('heap-snapshot', `${pid}`)
  t.is(error, 'another snapshot or profile is being written; wait for its end')
  await load.requests(10)
  const file = fileOf(await profile)
  t.deepEqual((await load.stop()).failures, {})
  t.is(modeOf(file), '600')
  const { nodes } = JSON.parse(readFileSync(file, 'utf8'))
  t.true(
    nodes.some(({ callFrame }: { callFrame: { url: string } }) => callFrame.url.endsWith('/dist/worker.js')),
  )
})

test.serial('cpu-profile: a worker that exits is reported, and the next file can be written', async t => {
  const [pid = 0, next = 0] = await service.workers()
  const profile = operator.run('cpu-profile', `${pid}:300`)
  // The supervisor reads this command after the other one, and replies when the worker has replied to it.
  await operator.run('status')
  process.kill(pid, 'SIGKILL')
  t.is((await profile).error, 'the worker has exited')
  t.is(modeOf(fileOf(await operator.run('cpu-profile', `${next}:1`))), '600')
})

test.serial('cpu-profile: a worker that hangs meanwhile is killed', async t => {
  const [pid = 0] = await service.workers()
  const profile = operator.run('cpu-profile', `${pid}:300`)
  await operator.run('status')
  process.kill(pid, 'SIGSTOP')
  t.is((await profile).error, 'the worker has exited')
})

test.serial('diagnoses: an argument that names no process is refused, and says what is allowed', async t => {
  const before = readdirSync(join(folder, 'diagnostics'))
  const [pid] = await service.workers()
  for (const [command, argument, reason] of [
    ['heap-snapshot', undefined, /^use heap-snapshot <pid>$/],
    ['heap-snapshot', 'http', /^use heap-snapshot <pid>$/],
    ['heap-snapshot', `${pid}:5`, /^use heap-snapshot <pid>$/],
    ['heap-snapshot', '1', /^the service has no process 1; its processes are \d+ \(supervisor\), \d+, \d+$/],
    [
      'cpu-profile',
      `${pid}:0`,
      /^use cpu-profile <pid> or cpu-profile <pid>:<seconds>, with 1 to 300 seconds$/,
    ],
    ['cpu-profile', `${pid}:301`, /with 1 to 300 seconds$/],
    ['cpu-profile', `${pid}:1.5`, /with 1 to 300 seconds$/],
  ] as const)
    t.regex((await operator.run(command, argument)).error ?? '', reason, `${command} ${argument}`)
  t.deepEqual(readdirSync(join(folder, 'diagnostics')), before)
})
