// Scenario: concurrent writers lock the same rows in opposite orders, and another session locks one of them. Most writes cause
// no deadlock and no lock wait timeout; the service retries the others, so no client sees one.
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import mysql, { type RowDataPacket } from 'mysql2/promise'
import { type Answer, type Client, createClient } from '../support/http.ts'
import { pick } from '../support/pick.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const clients = 24
const newUsers = Array.from({ length: 12 }, (_, index) => ({ first_name: 'Storm', last_name: `${index}` }))

/** Returns a copy of `list`, reversed in half of the cases. */
const inEitherOrder = <T>(list: readonly T[]): T[] => (Math.random() < 0.5 ? [...list] : list.toReversed())

/** Returns the server's counters of deadlocks and lock wait timeouts. */
async function readLockCounters(url: string): Promise<{ deadlocks: number; timeouts: number }> {
  const connection = await mysql.createConnection(url)
  const [rows] = await connection.query<RowDataPacket[]>(
    "SELECT name, count FROM information_schema.innodb_metrics WHERE name IN ('lock_deadlocks', 'lock_timeouts')",
  )
  await connection.end()
  const count = (name: string) => Number(rows.find(row => (row.name ?? row.NAME) === name)?.count ?? 0)
  return { deadlocks: count('lock_deadlocks'), timeouts: count('lock_timeouts') }
}

/** Locks a user's row for `holdMs` in a transaction of another session. */
async function lockRow(url: string, user: number, holdMs: number): Promise<void> {
  const connection = await mysql.createConnection(url)
  await connection.beginTransaction()
  await connection.query('SELECT id FROM users WHERE id = ? FOR UPDATE', [user])
  // The fault itself: the lock is held for this long.
  await delay(holdMs)
  await connection.rollback()
  await connection.end()
}

export const storm: Scenario = {
  title: 'deadlocks and lock wait timeouts among concurrent writers',

  run: ({ short }) =>
    withService({}, async service => {
      const setup = createClient(service.url)
      const groups: number[] = []
      for (let index = 0; index < 8; index++)
        groups.push(await setup.create('/v1/groups', { name: `storm ${index}` }))
      const users: number[] = []
      for (let index = 0; index < 4; index++)
        users.push(await setup.create('/v1/users', { first_name: 'Stays', last_name: `${index}` }))
      const before = await readLockCounters(service.database)

      const operations: ((api: Client) => Promise<Answer>)[] = [
        api =>
          api.post(`/v1/users/${pick(users)}/groups`, { groups: inEitherOrder(groups).map(id => ({ id })) }),
        api => api.delete(`/v1/users/${pick(users)}/groups/${pick(groups)}`),
        api => api.patch(`/v1/groups/${pick(groups)}`, { name: `storm ${Math.random()}` }),
        api => api.patch(`/v1/users/${pick(users)}`, { first_name: `${Math.random()}` }),
        api => api.post('/v1/users', { users: inEitherOrder(newUsers) }),
        async api => {
          const { users = [] } = (await api.get('/v1/users?first_name=Storm&records_per_page=20')).body
          return users.length === 0 ? setup.get('/v1/users') : api.delete(`/v1/users/${pick(users).id}`)
        },
        api => api.post('/v1/users', pick(newUsers)),
      ]
      const endMs = performance.now() + (short ? 6000 : 30_000)
      const statuses = new Map<number, number>()
      async function run(): Promise<void> {
        const api = createClient(service.url)
        while (performance.now() < endMs) {
          const { status, text } = await pick(operations)(api)
          assert.ok([200, 404, 409].includes(status), text)
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
        }
        api.close()
      }
      // Longer than the lock wait timeout, which is 5 s with the default settings.
      await Promise.all([
        ...Array.from({ length: clients }, run),
        lockRow(service.database, pick(users), 5500),
      ])
      setup.close()
      const after = await readLockCounters(service.database)
      const deadlocks = after.deadlocks - before.deadlocks
      const timeouts = after.timeouts - before.timeouts
      return (
        `${[...statuses.values()].reduce((all, count) => all + count, 0)} requests, ` +
        `${deadlocks} deadlocks and ${timeouts} lock wait timeouts in the database, 0 seen by a client`
      )
    }),
}
