// Scenario: all database connections are in use. Further requests get a 503 when the acquire timeout expires.
import assert from 'node:assert/strict'
import mysql from 'mysql2/promise'
import { createClient } from '../support/http.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const database = { poolMax: 4, acquireTimeoutMs: 1000, queryTimeoutMs: 8000 }

const maxResponseMs = 2 * database.acquireTimeoutMs + 500
const requests = 1000

export const fullPool: Scenario = {
  title: 'connection pool exhausted',

  run: () =>
    withService({ workers: 1, config: { database } }, async service => {
      const api = createClient(service.url)
      const group = await api.create('/v1/groups', { name: 'full' })
      const users: number[] = []
      for (let index = 0; index < database.poolMax; index++)
        users.push(await api.create('/v1/users', { first_name: 'Full', last_name: `${index}` }))
      const lockHolder = await mysql.createConnection(service.database)
      await lockHolder.beginTransaction()
      await lockHolder.query('SELECT id FROM users FOR UPDATE')
      const blocked = users.map(user => api.post(`/v1/users/${user}/groups`, { id: group }))
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
      await lockHolder.rollback()
      await lockHolder.end()
      const answers = await Promise.all(blocked)
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
