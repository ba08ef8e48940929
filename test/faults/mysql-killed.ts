// Scenario: MySQL is killed and restarted several times during mixed reads and writes.
import assert from 'node:assert/strict'
import type { Scenario } from './scenario.ts'
import { startVerifiedLoad } from './verified-load.ts'
import { withService } from './with-service.ts'

const database = { acquireTimeoutMs: 2000, queryTimeoutMs: 3000 }
// Four times the timeouts: a request may wait for the batch that was sent before its own, and the machine may be busy.
const maxResponseMs = 4 * (database.acquireTimeoutMs + database.queryTimeoutMs)
const maxRecoveryMs = 20_000

export const mysqlKilled: Scenario = {
  title: 'MySQL killed with SIGKILL and restarted under mixed load',

  run: ({ short, mysql }) =>
    withService({ config: { database } }, async service => {
      const rounds = short ? 3 : 10
      const workers = await service.workers()
      const load = await startVerifiedLoad({ url: service.url, clients: 16, maxResponseMs })
      let slowestRecoveryMs = 0
      for (let round = 0; round < rounds; round++) {
        await load.until('acknowledged', 300)
        await mysql.kill()
        await load.until('unavailable', 100)
        await mysql.start()
        const restartedMs = performance.now()
        await load.until('acknowledged', 300)
        slowestRecoveryMs = Math.max(slowestRecoveryMs, load.tally.lastFailureMs - restartedMs)
      }
      await load.stop()
      const verified = await load.verify()
      const { acknowledged, unavailable, lost, refused, slowestMs } = load.tally
      assert.equal(lost + refused, 0)
      assert.ok(slowestRecoveryMs < maxRecoveryMs, `recovery took ${slowestRecoveryMs} ms`)
      assert.deepEqual(await service.workers(), workers)
      return (
        `${rounds} kills: ${acknowledged} successful requests, all ${verified} acknowledged records present; ` +
        `${unavailable} × 503, no other failure; slowest response ${Math.round(slowestMs)} ms; ` +
        `last 503 ${Math.max(0, Math.round(slowestRecoveryMs))} ms after the restart`
      )
    }),
}
