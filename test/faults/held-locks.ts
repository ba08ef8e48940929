// Scenario: another session holds names and rows that clients ask for. All other writes go on, and what is asked for is answered
// as soon as it is free.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import mysql from 'mysql2/promise'
import { type Answer, type Client, createClient } from '../support/http.ts'
import { pick } from '../support/pick.ts'
import type { Scenario } from './run-scenarios.ts'
import { withService } from './with-service.ts'

const CLIENTS = 24
const MIN_RATE = 0.7
/** A write may take this long, or three times as long as the slowest one without the locks. */
const MAX_MS = 1000
const MAX_RATIO = 3
/** Rates of a few seconds differ on a loaded machine. What locks hold up, they hold up each time. */
const ATTEMPTS = 5
const DEADLINE_MS = 10_000

type Write = (api: Client) => Promise<Answer>
/** The number of records of a request that changes many. */
const MANY = 20

/** The records that another session has locked. */
interface Held {
  readonly users: readonly number[]
  readonly groups: readonly number[]
}

let sequence = 0
const person = () => ({ first_name: 'Free', last_name: `${++sequence}` })
/** A name that another session holds. @param round tells the names of one measurement from those of the others */
const heldName = (round: number, index: number) => ({ first_name: `Held ${round}`, last_name: `${index}` })

const pickMany = <T>(list: readonly T[]): T[] => Array.from({ length: MANY }, () => pick(list))
const renamed = (id: number) => ({ id, first_name: `${++sequence}` })

/** Creates users. @returns their ids */
async function createUsers(api: Client, count: number): Promise<number[]> {
  const { body } = await api.post('/v1/users', { users: Array.from({ length: count }, person) })
  return (body.users ?? []).flatMap(({ id }) => id ?? [])
}

/** Returns writes of records that no other session has locked. */
function freeWrites(users: readonly number[], groups: readonly number[]): Write[] {
  return [
    api => api.post('/v1/users', person()),
    api => api.post('/v1/users', person(), { 'idempotency-key': `free-${++sequence}` }),
    api => api.post('/v1/users', { users: [person(), person(), person()] }),
    api => api.patch(`/v1/users/${pick(users)}`, { first_name: `${++sequence}` }),
    api => api.patch('/v1/users', { users: pickMany(users).map(renamed) }),
    async api => api.delete(`/v1/users?id[in]=${await createUsers(api, 3)}`),
    api => api.post('/v1/groups', { name: `free ${++sequence}` }),
    api => api.post(`/v1/users/${pick(users)}/groups`, { id: pick(groups) }),
    api => api.post(`/v1/groups/${pick(groups)}/users`, { id: pick(users) }),
    api => api.delete(`/v1/users/${pick(users)}/groups/${pick(groups)}`),
  ]
}

/** Returns writes that need a name or a row that another session holds. */
function heldWrites(
  round: number,
  { users: held, groups: heldGroups }: Held,
  users: readonly number[],
  groups: readonly number[],
) {
  const name = () => heldName(round, Math.floor(Math.random() * held.length))
  const writes: Write[] = [
    api => api.post('/v1/users', name()),
    api => api.post('/v1/users', { users: [person(), name(), person()] }),
    api => api.post('/v1/users', name(), { 'idempotency-key': `held-${++sequence}` }),
    api => api.patch(`/v1/users/${pick(users)}`, name()),
    api => api.patch(`/v1/users/${pick(held)}`, { first_name: `${++sequence}` }),
    api => api.post(`/v1/users/${pick(held)}/groups`, { id: pick(groups) }),
    api => api.post(`/v1/groups/${pick(groups)}/users`, { users: [{ id: pick(held) }, { id: pick(users) }] }),
    api => api.delete(`/v1/users/${pick(held)}`),
    api => api.patch('/v1/users', { users: [...pickMany(users), pick(held)].map(renamed) }),
    api => api.patch('/v1/users', { users: pickMany(users).map(id => ({ id, ...name() })) }),
    api => api.delete(`/v1/users?id[in]=${pick(held)},${pick(held)}`),
    api => api.patch(`/v1/groups/${pick(heldGroups)}`, { name: `renamed ${++sequence}` }),
    api => api.post(`/v1/groups/${pick(heldGroups)}/users`, { id: pick(users) }),
    api => api.delete(`/v1/groups/${pick(heldGroups)}`),
    api => api.patch('/v1/groups', { groups: [{ id: pick(heldGroups), name: `renamed ${++sequence}` }] }),
    api => api.delete(`/v1/groups?id[in]=${pick(heldGroups)},${pick(heldGroups)}`),
  ]
  return writes
}

/** Sends writes with many clients until the time is up. @returns their number for each second, and the slowest one */
async function load(url: string, writes: readonly Write[], seconds: number) {
  const endMs = performance.now() + 1000 * seconds
  let count = 0
  let slowestMs = 0
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      const api = createClient(url)
      while (performance.now() < endMs) {
        const beganMs = performance.now()
        const { status, text, body } = await pick(writes)(api)
        assert.ok(status === 404 || (status === 200 && (body.meta.failed ?? 0) === 0), text)
        slowestMs = Math.max(slowestMs, performance.now() - beganMs)
        count++
      }
      api.close()
    }),
  )
  return { perSecond: count / seconds, slowestMs }
}

/** @param database the URL of a migrated database; by default, a new one on the server of the tests */
export const heldLocksOn = (database?: string): Scenario<{ readonly short: boolean }> => ({
  title: 'names and rows that another session holds',

  run: ({ short }) => {
    const config = { database: { queryTimeoutMs: DEADLINE_MS } }
    return withService({ config, ...(database !== undefined && { database }) }, async service => {
      const seconds = short ? 3 : 10
      const setup = createClient(service.url)
      const createGroups = (count: number): Promise<number[]> =>
        Promise.all(
          Array.from({ length: count }, () => setup.create('/v1/groups', { name: `group ${++sequence}` })),
        )
      const groups = await createGroups(10)
      const users = await createUsers(setup, 400)
      const others = await createUsers(setup, 100)
      /**
       * Measures the other writes while names and rows are held.
       * @param count the number of each
       * @param vanishes whether the holder never ends its transaction, so that the server ends its silent connection
       */
      const measure = async (count: number, vanishes = false) => {
        const round = ++sequence
        const held: Held = {
          users: await createUsers(setup, count),
          groups: await createGroups(Math.min(count, 10)),
        }
        const writes = freeWrites(users, groups)
        await load(service.url, writes, 1)
        const before = await load(service.url, writes, seconds)

        const holder = await mysql.createConnection(service.database)
        const isCut = once(holder, 'error')
        if (vanishes) await holder.query(`SET SESSION wait_timeout = ${seconds + 3}`)
        await holder.beginTransaction()
        const names = Array.from({ length: count }, (_, index) => [
          ...Object.values(heldName(round, index)),
          1,
        ])
        await holder.query('INSERT INTO users (first_name, last_name, version) VALUES ?', [names])
        // One by one: for a list of ids, the server can scan an index of a small table, and would lock all of its rows and gaps.
        for (const id of held.users) await holder.query('SELECT id FROM users WHERE id = ? FOR UPDATE', [id])
        for (const id of held.groups)
          await holder.query('SELECT id FROM `groups` WHERE id = ? FOR UPDATE', [id])
        const stop = new AbortController()
        let late = 0
        const asking = Array.from({ length: CLIENTS }, async () => {
          const api = createClient(service.url)
          const wanted = heldWrites(round, held, others, groups)
          while (!stop.signal.aborted) {
            const { status, text } = await pick(wanted)(api)
            assert.ok([200, 404, 409, 503].includes(status), `${status} ${text}`)
            if (status === 503) late++
          }
          api.close()
        })
        // A failure is reported after the load, with the log of the service.
        const asked = Promise.all(asking)
        asked.catch(() => {})
        const during = await load(service.url, writes, seconds)
        if (vanishes) await isCut
        const freedMs = performance.now()
        stop.abort()
        if (!vanishes) await holder.rollback().then(() => holder.end())
        await asked
        const answeredMs = performance.now() - freedMs
        const ratio = during.perSecond / before.perSecond
        const line =
          `${count} held${vanishes ? ' by a session that vanishes' : ''}: ${Math.round(before.perSecond)} → ${Math.round(during.perSecond)} writes/s (${ratio.toFixed(2)}), ` +
          `slowest ${Math.round(before.slowestMs)} → ${Math.round(during.slowestMs)} ms, ` +
          `answered ${Math.round(answeredMs)} ms after the end of the locks, ${late} × 503 at the deadline`
        console.log(line)
        const maxMs = Math.max(MAX_MS, MAX_RATIO * before.slowestMs)
        return { line, isGood: ratio >= MIN_RATE && during.slowestMs < maxMs }
      }
      const lines: string[] = []
      const cases: [count: number, vanishes?: boolean][] = [[1], [40], [400]]
      if (!short) cases.push([200, true])
      for (const one of cases) {
        let result = await measure(...one)
        for (let attempt = 2; !result.isGood && attempt <= ATTEMPTS; attempt++) result = await measure(...one)
        assert.ok(result.isGood, result.line)
        lines.push(result.line)
      }
      setup.close()
      return lines.join('\n')
    })
  },
})

export const heldLocks = heldLocksOn()
