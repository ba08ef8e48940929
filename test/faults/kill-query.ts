// KILL QUERY, and now and then KILL CONNECTION, hit random statements of the service, also BEGIN, COMMIT and ROLLBACK, during writes of
// every kind.
import assert from 'node:assert/strict'
import mysql, { type RowDataPacket } from 'mysql2/promise'
import { type Answer, type Client, createClient } from '../support/http.ts'
import { sessionsOf } from '../support/sessions.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const CLIENTS = 16
const KILLERS = 4

/** Whether a fact is expected to be in the database, by `<kind> <name>`. An unknown outcome removes the fact. */
type Facts = Map<string, boolean>

interface Tally {
  stored: number
  refused: number
  unknown: number
  kills: number
}

let names = 0
const newName = () => `killed ${process.pid} ${++names}`

/** Kills statements and connections of the service until `isOver`. */
async function killQueries(url: string, tally: Tally, isOver: () => boolean): Promise<void> {
  const server = new URL(url)
  // Connections without a database are those of the killers.
  server.pathname = ''
  const connection = await mysql.createConnection(server.href)
  while (!isOver()) {
    for (const { id } of await sessionsOf(url, connection)) {
      // The connection may have ended in the meantime.
      const killed = connection.query(`KILL ${Math.random() < 0.02 ? 'CONNECTION' : 'QUERY'} ${id}`)
      await killed.then(() => tally.kills++).catch(() => {})
    }
  }
  await connection.end()
}

/** Writes to records of its own until `isOver`, and notes in `facts` what the database must contain. */
async function write(api: Client, facts: Facts, tally: Tally, isOver: () => boolean): Promise<void> {
  /** @param changes the facts after the write if it is stored; the opposite holds if it is refused */
  async function ask(send: () => Promise<Answer>, changes: [fact: string, isThere: boolean][]) {
    const { status, text, body } = await send()
    assert.ok(status === 200 || status === 503, text)
    const outcome = status === 200 ? 'stored' : text.includes('unknown') ? 'unknown' : 'refused'
    tally[outcome]++
    for (const [fact, isThere] of changes) {
      if (outcome === 'unknown') facts.delete(fact)
      else facts.set(fact, outcome === 'stored' ? isThere : !isThere)
    }
    return outcome === 'stored' ? body : undefined
  }
  async function createRecord(collection: 'users' | 'groups') {
    const name = newName()
    const fields = collection === 'users' ? { first_name: 'Killed', last_name: name } : { name }
    const created = await ask(() => api.post(`/v1/${collection}`, fields), [[`${collection} ${name}`, true]])
    return created === undefined ? undefined : { id: Number(created.id), name }
  }
  async function rename(collection: 'users' | 'groups', { id, name }: { id: number; name: string }) {
    const next = newName()
    const fields = collection === 'users' ? { last_name: next } : { name: next }
    const changes: [string, boolean][] = [
      [`${collection} ${next}`, true],
      [`${collection} ${name}`, false],
    ]
    const renamed = await ask(() => api.patch(`/v1/${collection}/${id}`, fields), changes)
    return renamed === undefined ? name : next
  }

  while (!isOver()) {
    const user = await createRecord('users')
    const group = await createRecord('groups')
    const batch = [newName(), newName(), newName()]
    const entries = batch.map(last_name => ({ first_name: 'Batch', last_name }))
    await ask(
      () => api.post('/v1/users', { users: entries }),
      batch.map(name => [`users ${name}`, true]),
    )
    if (user === undefined || group === undefined) continue
    const member = `memberships ${user.id} ${group.id}`
    facts.set(member, false)
    const join = () => api.post(`/v1/users/${user.id}/groups`, { id: group.id })
    const joined = await ask(join, [[member, true]])
    group.name = await rename('groups', group)
    user.name = await rename('users', user)
    // An equal name: the row changes, but no sort key of it.
    await ask(() => api.patch(`/v1/users/${user.id}`, { first_name: 'KILLED' }), [])
    if (joined !== undefined && Math.random() < 0.5)
      await ask(() => api.delete(`/v1/users/${user.id}/groups/${group.id}`), [[member, false]])
    // A deletion also removes the membership, which is then no fact of its own.
    if (facts.get(member) !== false || !facts.has(`users ${user.name}`)) continue
    await ask(() => api.delete(`/v1/users/${user.id}`), [[`users ${user.name}`, false]])
  }
}

/** @returns the facts that the database contradicts, and the number of totals and includes that were compared */
async function verify(api: Client, url: string, facts: Facts) {
  const connection = await mysql.createConnection(url)
  const query = async (sql: string) => (await connection.query<RowDataPacket[]>(sql))[0]
  const [users, groups, members] = await Promise.all([
    query('SELECT id, last_name AS name FROM users'),
    query('SELECT id, name FROM `groups`'),
    query('SELECT user_id, group_id, name FROM memberships JOIN `groups` ON id = group_id'),
  ])
  // Compares each index with the rows.
  for (const { Table, Msg_text } of await query('CHECK TABLE users, `groups`, memberships EXTENDED'))
    assert.equal(Msg_text, 'OK', Table)
  await connection.end()
  const stored = new Set([
    ...users.map(({ name }) => `users ${name}`),
    ...groups.map(({ name }) => `groups ${name}`),
    ...members.map(({ user_id, group_id }) => `memberships ${user_id} ${group_id}`),
  ])
  assert.equal(await api.count('/v1/users'), users.length, 'the total of the users')
  assert.equal(await api.count('/v1/groups'), groups.length, 'the total of the groups')
  for (const { user_id, group_id, name } of members) {
    assert.equal(await api.count(`/v1/users?groups[*].id=${group_id}`), 1, 'the total of the members')
    const { groups } = (await api.get(`/v1/users/${user_id}?include=groups`)).body
    assert.deepEqual(groups, [{ id: group_id, name }], 'an include')
  }
  const wrong = [...facts].filter(([fact, isThere]) => stored.has(fact) !== isThere)
  return { wrong, compared: members.length }
}

export const killQuery: Scenario = {
  title: 'a storm of KILL QUERY and KILL CONNECTION under mixed writes',

  run: ({ short }) =>
    withService({}, async service => {
      const endMs = performance.now() + (short ? 5000 : 60_000)
      const isOver = () => performance.now() > endMs
      const tally: Tally = { stored: 0, refused: 0, unknown: 0, kills: 0 }
      const facts: Facts = new Map()
      const apis = Array.from({ length: CLIENTS }, () => createClient(service.url))
      await Promise.all([
        ...Array.from({ length: KILLERS }, () => killQueries(service.database, tally, isOver)),
        ...apis.map(api => write(api, facts, tally, isOver)),
      ])
      for (const api of apis) api.close()
      const api = createClient(service.url)
      const { wrong, compared } = await verify(api, service.database, facts)
      api.close()
      assert.deepEqual(wrong, [], 'what the responses said, true or false, contradicts the database')
      assert.ok(tally.refused > 0 && tally.kills > 0, 'no statement was interrupted')
      return (
        `${tally.kills} kills: ${tally.stored} writes stored, ${tally.refused} × 503 and not stored, ` +
        `${tally.unknown} × 503 with an unknown outcome; 0 of ${facts.size} outcomes contradict the database; all totals ` +
        `equal COUNT(*), those of the members of ${compared} groups too; 0 of ${compared} includes stale; all indexes whole`
      )
    }),
}
