// The connections to MySQL half open: packets vanish and nobody says so.
import assert from 'node:assert/strict'
import { createDatabase } from '../support/service.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'
import { throughProxy } from './database-url.ts'
import { startLedger } from './ledger.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const settings = { acquireTimeoutMs: 1000, queryTimeoutMs: 2000 }
// A request may wait for one that was sent before it, whose place it gathers for.
const longestMs = 2 * (settings.acquireTimeoutMs + settings.queryTimeoutMs)
const recoveryMs = 5000

export const mysqlSilent: Scenario = {
  title: 'MySQL behind a connection that lost its packets',

  async run({ short }) {
    const database = await createDatabase()
    const proxy = await openTcpProxy(database)
    const options = { database: throughProxy(database, proxy.port), config: { database: settings } }
    return withService(options, async service => {
      const rounds = short ? 1 : 5
      const ledger = await startLedger({ url: service.url, clients: 16, longestMs })
      let slowestRecoveryMs = 0
      for (let round = 0; round < rounds; round++) {
        await ledger.until('acknowledged', 300)
        proxy.block()
        await ledger.until('unavailable', 50)
        proxy.open()
        const backMs = performance.now()
        await ledger.until('acknowledged', 300)
        slowestRecoveryMs = Math.max(slowestRecoveryMs, ledger.tally.lastRefusedMs - backMs)
      }
      await ledger.stop()
      const kept = await ledger.verify()
      assert.equal(ledger.tally.lost + ledger.tally.refused, 0)
      assert.ok(slowestRecoveryMs < recoveryMs, `recovery took ${slowestRecoveryMs} ms`)
      const { acknowledged, unavailable, slowestMs } = ledger.tally
      return (
        `${rounds} times, time-out ${settings.queryTimeoutMs} ms: ${acknowledged} requests answered, all ${kept} ` +
        `acknowledged records there; ${unavailable} × 503; the slowest answer took ${Math.round(slowestMs)} ms; ` +
        `the last 503 came ${Math.max(0, Math.round(slowestRecoveryMs))} ms after the packets' return`
      )
    }).finally(proxy.close.bind(proxy))
  },
}
