// MySQL is killed again and again in the middle of mixed reads and writes.
import assert from 'node:assert/strict'
import { startLedger } from './ledger.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const database = { acquireTimeoutMs: 2000, queryTimeoutMs: 3000 }
// A request may wait for the one before it, whose place it gathers for.
const longestMs = 2 * (database.acquireTimeoutMs + database.queryTimeoutMs)
const recoveryMs = 5000

export const mysqlKilled: Scenario = {
  title: 'MySQL killed with -9 and restarted under mixed load',

  run: ({ short, mysql }) =>
    withService({ config: { database } }, async service => {
      const rounds = short ? 3 : 10
      const workers = await service.workers()
      const ledger = await startLedger({ url: service.url, clients: 16, longestMs })
      let slowestRecoveryMs = 0
      for (let round = 0; round < rounds; round++) {
        await ledger.until('acknowledged', 300)
        await mysql.pull()
        await ledger.until('unavailable', 100)
        await mysql.putBack()
        const backMs = performance.now()
        await ledger.until('acknowledged', 300)
        slowestRecoveryMs = Math.max(slowestRecoveryMs, ledger.tally.lastRefusedMs - backMs)
      }
      await ledger.stop()
      const kept = await ledger.verify()
      const { acknowledged, unavailable, lost, refused, slowestMs } = ledger.tally
      assert.equal(lost + refused, 0)
      assert.ok(slowestRecoveryMs < recoveryMs, `recovery took ${slowestRecoveryMs} ms`)
      assert.deepEqual(await service.workers(), workers)
      return (
        `${rounds} kills: ${acknowledged} requests answered, all ${kept} acknowledged records there; ` +
        `${unavailable} × 503, 0 × anything else; the slowest answer took ${Math.round(slowestMs)} ms; ` +
        `the last 503 came ${Math.max(0, Math.round(slowestRecoveryMs))} ms after the server's return`
      )
    }),
}
