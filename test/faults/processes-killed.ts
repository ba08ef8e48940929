// Workers and supervisor are killed at random under load, with drains and reloads in between.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createOperator, isAlive } from '../support/operator.ts'
import { claimPorts } from '../support/ports.ts'
import { createDatabase, type Service, startService } from '../support/service.ts'
import { startLedger } from './ledger.ts'
import type { Scenario } from './scenario.ts'

const clients = 16
const drain = { delayMs: 0, idleMs: 200, deadlineMs: 3000 }
// What the orphans of a supervisor may take to end: their deadline and a little grace.
const orphansMs = drain.deadlineMs + 3000

const isReady = ({ state }: { state: string }) => state === 'ready'

export const processesKilled: Scenario = {
  title: 'workers and supervisor killed at random under load, drains and reloads in between',

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
    const ledger = await startLedger({ url: service.url, clients, longestMs: 15_000 })

    const acts: (() => Promise<void>)[] = [
      async function killWorker() {
        const operator = createOperator(service)
        const { workers } = await operator.status()
        const victim = workers[Math.floor(Math.random() * workers.length)]
        if (victim?.pid === undefined) return
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
        // One that is killed meanwhile may end a reload; the fleet is whole again in any case.
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
        const giveUpMs = performance.now() + orphansMs
        while (pids.some(isAlive)) {
          assert.ok(performance.now() < giveUpMs, `there are orphans among ${pids}`)
          await delay(20)
        }
        service = await start()
        const after = createOperator(service)
        assert.equal(await after.health('http'), inMaintenance ? 404 : 200)
        if (inMaintenance) await after.run('resume', 'http')
        counts.supervisors++
      },
    ]
    const weights = [0, 0, 0, 0, 1, 1, 2, 3]
    const endMs = performance.now() + (short ? 10_000 : 300_000)
    // Each thing at least once, and then at random.
    for (let at = 0; at < acts.length || performance.now() < endMs; at++) {
      // With nobody left to serve, connections would be refused.
      await createOperator(service).until(({ workers }) => workers.filter(isReady).length === 2, 30_000)
      const chosen = at < acts.length ? at : weights[Math.floor(Math.random() * weights.length)]
      await acts[chosen ?? 0]?.()
      await ledger.until('acknowledged', 50)
    }
    await ledger.stop()
    const kept = await ledger.verify()
    const { acknowledged, lost, refused, unavailable } = ledger.tally
    const pids = await service.workers()
    assert.equal(await service.stop(), 0)
    assert.deepEqual(pids.filter(isAlive), [])
    await claim.release()
    await rm(folder, { recursive: true })
    assert.equal(unavailable, 0)
    assert.ok(lost <= clients * (counts.workers + counts.supervisors), `${lost} requests were lost`)
    return (
      `${counts.workers} workers and ${counts.supervisors} supervisors killed, ${counts.drains} drains, ` +
      `${counts.reloads} reloads: ${acknowledged} requests answered, ${lost} lost (in flight in who was killed), ` +
      `0 half answers, 0 orphans, all ${kept} acknowledged records there; ` +
      `${refused} attempts to connect while there was no supervisor`
    )
  },
}
