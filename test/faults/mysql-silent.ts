// Scenario: packets between the service and MySQL are lost while the connections stay open.
import assert from 'node:assert/strict'
import { createDatabase } from '../support/service.ts'
import { openTcpProxy } from '../support/tcp-proxy.ts'
import { throughProxy } from './database-url.ts'
import type { Scenario } from './scenario.ts'
import { startVerifiedLoad } from './verified-load.ts'
import { withService } from './with-service.ts'

const settings = { acquireTimeoutMs: 1000, queryTimeoutMs: 2000 }
// Four times the timeouts: a request may wait for the batch that was sent before its own, and the machine may be busy.
const maxResponseMs = 4 * (settings.acquireTimeoutMs + settings.queryTimeoutMs)
const maxRecoveryMs = 20_000

export const mysqlSilent: Scenario = {
  title: 'packet loss between the service and MySQL',

  async run({ short }) {
    const database = await createDatabase()
    const proxy = await openTcpProxy(database)
    const options = { database: throughProxy(database, proxy.port), config: { database: settings } }
    return withService(options, async service => {
      const rounds = short ? 1 : 5
      const load = await startVerifiedLoad({ url: service.url, clients: 16, maxResponseMs })
      let slowestRecoveryMs = 0
      for (let round = 0; round < rounds; round++) {
        await load.until('acknowledged', 300)
        proxy.block()
        await load.until('unavailable', 50)
        proxy.open()
        const unblockedMs = performance.now()
        await load.until('acknowledged', 300)
        slowestRecoveryMs = Math.max(slowestRecoveryMs, load.tally.lastFailureMs - unblockedMs)
      }
      await load.stop()
      const verified = await load.verify()
      assert.equal(load.tally.lost + load.tally.refused, 0)
      assert.ok(slowestRecoveryMs < maxRecoveryMs, `recovery took ${slowestRecoveryMs} ms`)
      const { acknowledged, unavailable, slowestMs } = load.tally
      return (
        `${rounds} times, query timeout ${settings.queryTimeoutMs} ms: ${acknowledged} successful requests, ` +
        `all ${verified} acknowledged records present; ${unavailable} × 503; ` +
        `slowest response ${Math.round(slowestMs)} ms; ` +
        `last 503 ${Math.max(0, Math.round(slowestRecoveryMs))} ms after the connection was restored`
      )
    }).finally(proxy.close.bind(proxy))
  },
}
