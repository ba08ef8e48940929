// Every connection to the database is busy for long: who comes next is told so in time.
import assert from 'node:assert/strict'
import mysql from 'mysql2/promise'
import { createClient } from '../support/http.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const database = { poolMax: 4, acquireTimeoutMs: 1000, queryTimeoutMs: 8000 }

const longestMs = 2 * database.acquireTimeoutMs + 500
const requests = 1000

export const fullPool: Scenario = {
  title: 'a pool of connections that is full for long',

  run: () =>
    withService({ workers: 1, config: { database } }, async service => {
      const api = createClient(service.url)
      const group = await api.create('/v1/groups', { name: 'full' })
      const users: number[] = []
      for (let index = 0; index < database.poolMax; index++)
        users.push(await api.create('/v1/users', { first_name: 'Full', last_name: `${index}` }))
      const holder = await mysql.createConnection(service.database)
      await holder.beginTransaction()
      await holder.query('SELECT id FROM users FOR UPDATE')
      const held = users.map(user => api.post(`/v1/users/${user}/groups`, { id: group }))
      let slowestMs = 0
      const statuses = new Map<number, number>()
      await Promise.all(
        Array.from({ length: requests }, async (_, index) => {
          const beganMs = performance.now()
          const { status, headers } = await api.get(`/v1/users?first_name=${index}&include=groups`)
          slowestMs = Math.max(slowestMs, performance.now() - beganMs)
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
          if (status === 503) assert.match(headers['retry-after'] ?? '', /^\d+$/)
        }),
      )
      await holder.rollback()
      await holder.end()
      const answers = await Promise.all(held)
      api.close()
      for (const { status, text } of answers) assert.equal(status, 200, text)
      assert.deepEqual([...statuses.keys()], [503])
      assert.ok(slowestMs < longestMs, `${slowestMs} ms`)
      return (
        `${requests} requests while all ${database.poolMax} connections were held, ${database.acquireTimeoutMs} ms to ` +
        `get one: all 503 within ${Math.round(slowestMs)} ms; what held them went on to 200`
      )
    }),
}
