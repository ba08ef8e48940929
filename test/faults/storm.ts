// Writers who take the same rows in opposite orders: the database has deadlocks, and no client sees one.
import assert from 'node:assert/strict'
import mysql, { type RowDataPacket } from 'mysql2/promise'
import { type Answer, type Client, createClient } from '../support/http.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const clients = 24
const people = Array.from({ length: 12 }, (_, index) => ({ first_name: 'Storm', last_name: `${index}` }))

const pick = <T>(list: readonly T[]): T => {
  const item = list[Math.floor(Math.random() * list.length)]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}
/** Everything, forwards or backwards. */
const eitherWay = <T>(list: readonly T[]): T[] => (Math.random() < 0.5 ? [...list] : list.toReversed())

/** How many deadlocks and lock time-outs the server has seen. */
async function contention(url: string): Promise<{ deadlocks: number; timeouts: number }> {
  const connection = await mysql.createConnection(url)
  const [rows] = await connection.query<RowDataPacket[]>(
    "SELECT name, count FROM information_schema.innodb_metrics WHERE name IN ('lock_deadlocks', 'lock_timeouts')",
  )
  await connection.end()
  const count = (name: string) => Number(rows.find(row => (row.name ?? row.NAME) === name)?.count ?? 0)
  return { deadlocks: count('lock_deadlocks'), timeouts: count('lock_timeouts') }
}

/** Somebody else's transaction that holds a row for longer than one may wait for a lock. */
async function holdRow(url: string, user: number, waitMs: number): Promise<void> {
  const connection = await mysql.createConnection(url)
  await connection.beginTransaction()
  await connection.query('SELECT id FROM users WHERE id = ? FOR UPDATE', [user])
  await new Promise(resolve => setTimeout(resolve, waitMs))
  await connection.rollback()
  await connection.end()
}

export const storm: Scenario = {
  title: 'deadlocks and lock time-outs in a storm of opposite-order writers',

  run: ({ short }) =>
    withService({}, async service => {
      const setup = createClient(service.url)
      const groups: number[] = []
      for (let index = 0; index < 8; index++)
        groups.push(await setup.create('/v1/groups', { name: `storm ${index}` }))
      const users: number[] = []
      for (let index = 0; index < 4; index++)
        users.push(await setup.create('/v1/users', { first_name: 'Stays', last_name: `${index}` }))
      const before = await contention(service.database)

      const acts: ((api: Client) => Promise<Answer>)[] = [
        api => api.post(`/v1/users/${pick(users)}/groups`, { groups: eitherWay(groups).map(id => ({ id })) }),
        api => api.delete(`/v1/users/${pick(users)}/groups/${pick(groups)}`),
        api => api.patch(`/v1/groups/${pick(groups)}`, { name: `storm ${Math.random()}` }),
        api => api.patch(`/v1/users/${pick(users)}`, { first_name: `${Math.random()}` }),
        api => api.post('/v1/users', { users: eitherWay(people) }),
        async api => {
          const { users = [] } = (await api.get('/v1/users?first_name=Storm&records_per_page=20')).body
          return users.length === 0 ? setup.get('/v1/users') : api.delete(`/v1/users/${pick(users).id}`)
        },
        api => api.post('/v1/users', pick(people)),
      ]
      const endMs = performance.now() + (short ? 6000 : 30_000)
      const seen = new Map<number, number>()
      async function run(): Promise<void> {
        const api = createClient(service.url)
        while (performance.now() < endMs) {
          const { status, text } = await pick(acts)(api)
          assert.ok([200, 404, 409].includes(status), text)
          seen.set(status, (seen.get(status) ?? 0) + 1)
        }
        api.close()
      }
      // MySQL's lock waits are 5 s with the settings as they are.
      await Promise.all([
        ...Array.from({ length: clients }, run),
        holdRow(service.database, pick(users), 5500),
      ])
      setup.close()
      const after = await contention(service.database)
      const deadlocks = after.deadlocks - before.deadlocks
      const timeouts = after.timeouts - before.timeouts
      assert.ok(deadlocks > 0 && timeouts > 0, 'this was no storm')
      return (
        `${[...seen.values()].reduce((all, count) => all + count, 0)} requests, ` +
        `${deadlocks} deadlocks and ${timeouts} lock time-outs in the database: 0 seen by a client`
      )
    }),
}
