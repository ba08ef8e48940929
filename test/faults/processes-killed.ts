// Scenario: workers and the supervisor are killed at random under load, with drains and reloads in between.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createOperator, isAlive } from '../support/operator.ts'
import { pick } from '../support/pick.ts'
import { claimPorts } from '../support/ports.ts'
import { createDatabase, type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import type { Scenario } from './scenario.ts'
import { startVerifiedLoad } from './verified-load.ts'

const clients = 16
const drain = { delayMs: 0, idleMs: 200, deadlineMs: 3000 }
// Orphaned workers exit at the drain deadline at the latest; the rest is a margin for a busy machine.
const maxOrphanMs = drain.deadlineMs + 20_000

const isReady = ({ state }: { state: string }) => state === 'ready'

export const processesKilled: Scenario = {
  title: 'workers and supervisor killed at random under load, with drains and reloads in between',

  async run({ short }) {
    const database = await createDatabase()
    const claim = await claimPorts()
    const folder = await mkdtemp(join(tmpdir(), 'users-api-killed-'))
    const start = (): Promise<Service> =>
      startService({
        workers: 2,
        database,
        config: {
          ports: [{ label: 'http', port: claim.first, protocol: 'http' }],
          stateFile: join(folder, 'state.json'),
          drain,
        },
      })
    let service = await start()
    const counts = { workers: 0, supervisors: 0, drains: 0, reloads: 0 }
    const load = await startVerifiedLoad({ url: service.url, clients, maxResponseMs: 60_000 })

    const actions: (() => Promise<void>)[] = [
      async function killWorker() {
        const operator = createOperator(service)
        const { workers } = await operator.status()
        const victim = pick(workers)
        if (victim.pid === undefined) return
        process.kill(victim.pid, 'SIGKILL')
        await operator.until(({ workers }) => workers.every(({ pid }) => pid !== victim.pid))
        counts.workers++
      },
      async function drainAndResume() {
        const operator = createOperator(service)
        await operator.run('drain', 'http')
        assert.equal(await operator.health('http'), 404)
        const { ended } = await operator.run('wait', 'http')
        assert.match(ended ?? '', /^(drained|deadline)$/)
        await operator.run('resume', 'http')
        assert.equal(await operator.health('http'), 200)
        counts.drains++
      },
      async function reload() {
        const { error } = await createOperator(service).run('reload')
        // A worker that dies during a reload may end the reload; the supervisor still replaces the worker.
        assert.ok(error === undefined || /reload/.test(error), error)
        counts.reloads++
      },
      async function killSupervisor() {
        const inMaintenance = Math.random() < 0.5
        const operator = createOperator(service)
        if (inMaintenance) await operator.run('drain', 'http')
        const pids = await service.workers()
        service.supervisor.kill('SIGKILL')
        await service.stop()
        await until(() => !pids.some(isAlive), {
          withinMs: maxOrphanMs,
          describe: () => `no orphaned workers among ${pids}`,
        })
        service = await start()
        const after = createOperator(service)
        assert.equal(await after.health('http'), inMaintenance ? 404 : 200)
        if (inMaintenance) await after.run('resume', 'http')
        counts.supervisors++
      },
    ]
    const weights = [0, 0, 0, 0, 1, 1, 2, 3]
    const endMs = performance.now() + (short ? 10_000 : 300_000)
    // Each action runs once, then actions are chosen at random.
    for (let round = 0; round < actions.length || performance.now() < endMs; round++) {
      // Without a ready worker, connections would be refused.
      await createOperator(service).until(({ workers }) => workers.filter(isReady).length === 2)
      const chosen = round < actions.length ? round : pick(weights)
      await actions[chosen]?.()
      await load.until('acknowledged', 50)
    }
    await load.stop()
    const verified = await load.verify()
    const { acknowledged, lost, refused, unavailable } = load.tally
    const pids = await service.workers()
    assert.equal(await service.stop(), 0)
    assert.deepEqual(pids.filter(isAlive), [])
    await claim.release()
    await rm(folder, { recursive: true })
    assert.equal(unavailable, 0)
    assert.ok(lost <= clients * (counts.workers + counts.supervisors), `${lost} requests were lost`)
    return (
      `${counts.workers} workers and ${counts.supervisors} supervisors killed, ${counts.drains} drains, ` +
      `${counts.reloads} reloads: ${acknowledged} successful requests, ${lost} lost (in flight in a killed process), ` +
      `0 truncated responses, 0 orphans, all ${verified} acknowledged records present; ` +
      `${refused} connections refused while no supervisor was running`
    )
  },
}
