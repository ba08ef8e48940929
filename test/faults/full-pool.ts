// Scenario: all database connections are in use. Further requests get a 503 when the acquire timeout expires.
import assert from 'node:assert/strict'
import mysql from 'mysql2/promise'
import { createClient } from '../support/http.ts'
import { sessionsOf } from '../support/sessions.ts'
import { until } from '../support/until.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const database = { poolMax: 4, acquireTimeoutMs: 1000, queryTimeoutMs: 120_000 }

/** Far from the query timeout: no response waits for the blocked queries. 1000 responses at once take their own time. */
const maxResponseMs = database.queryTimeoutMs / 2
const requests = 1000

export const fullPool: Scenario = {
  title: 'connection pool exhausted',

  run: () =>
    withService({ workers: 1, config: { database } }, async service => {
      const api = createClient(service.url)
      const holder = await mysql.createConnection(service.database)
      // Writes leave connections to reads, so only reads can fill the pool: with a table that is locked.
      await holder.query('LOCK TABLES users WRITE')
      // Different pages: requests for the same page share one connection.
      const held = Array.from({ length: database.poolMax }, (_, n) => api.get(`/v1/users?start_index=${n}`))
      const waiting = async () => {
        const sessions = await sessionsOf(service.database, holder)
        return sessions.filter(({ state }) => state?.startsWith('Waiting for table')).length
      }
      await until(async () => (await waiting()) >= database.poolMax)
      let slowestMs = 0
      const statuses = new Map<number, number>()
      await Promise.all(
        Array.from({ length: requests }, async (_, index) => {
          const startedMs = performance.now()
          const { status, headers } = await api.get(`/v1/users?first_name=${index}&include=groups`)
          slowestMs = Math.max(slowestMs, performance.now() - startedMs)
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
          if (status === 503) assert.match(headers['retry-after'] ?? '', /^\d+$/)
        }),
      )
      await holder.query('UNLOCK TABLES')
      await holder.end()
      const answers = await Promise.all(held)
      api.close()
      for (const { status, text } of answers) assert.equal(status, 200, text)
      assert.deepEqual([...statuses.keys()], [503])
      assert.ok(slowestMs < maxResponseMs, `${slowestMs} ms`)
      return (
        `${requests} requests while all ${database.poolMax} connections were in use, acquire timeout ` +
        `${database.acquireTimeoutMs} ms: all 503 within ${Math.round(slowestMs)} ms; the blocked requests ` +
        'completed with 200'
      )
    }),
}
