// Concurrent reads and writes with two workers: a read shows every write that was acknowledged before the read started.
import assert from 'node:assert/strict'
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import type { Client } from '../support/http.ts'
import { pick } from '../support/pick.ts'

const { openClient, close } = await openApi({ workers: 2 })
test.after.always(close)

/** The number of changes that each writer makes. */
const ROUNDS = 40

/** The states written to one resource, in order. A read must not show a state older than `acknowledged`. */
function createHistory(initial: string) {
  const states = [initial]
  let acknowledged = 0
  return {
    async write(state: string, send: () => Promise<{ status: number; text: string }>): Promise<void> {
      states.push(state)
      const answer = await send()
      assert.equal(answer.status, 200, answer.text)
      acknowledged = states.length - 1
    },
    oldest: () => acknowledged,
    /** Throws unless `state` is `oldest` or newer. */
    check(state: string, oldest: number): void {
      const allowed = states.slice(oldest)
      assert.ok(allowed.includes(state), `${state} is stale, expected one of ${allowed.join(' | ')}`)
    },
  }
}

/** Runs one writer for each user, one for the group names, and readers, all concurrently. */
test('read-your-writes: reads with two workers show every acknowledged write', async t => {
  // Several connections, so that both workers receive requests.
  const clients = Array.from({ length: 6 }, () => openClient())
  const setup = pick(clients, 0)
  const groups: number[] = []
  for (let index = 0; index < 6; index++)
    groups.push(await setup.create('/v1/groups', { name: `crowd ${index}:0` }))
  const users: number[] = []
  for (let index = 0; index < 4; index++)
    users.push(await setup.create('/v1/users', { first_name: 'Crowd', last_name: `${index}` }))
  const names = new Map(groups.map((id, index) => [id, createHistory(`crowd ${index}:0`)]))
  const members = new Map(users.map(id => [id, createHistory('')]))
  let writing = true

  /** Reads one user or all users and compares them with the states acknowledged before the read. */
  async function checkRead(api: Client, user: number): Promise<void> {
    const oldest = new Map([...names, ...members].map(([, history]) => [history, history.oldest()]))
    const single = Math.random() < 0.6
    const { body } = await api.get(
      single ? `/v1/users/${user}?include=groups` : '/v1/users?include=groups&first_name=Crowd',
    )
    const read = single ? [body] : (body.users ?? [])
    assert.deepEqual(
      read.map(({ id }) => id),
      single ? [user] : users,
    )
    /** All records of a page are those of one moment. */
    const shown = new Map<number, string>()
    for (const { id, groups = [] } of read) {
      const history = members.get(Number(id))
      history?.check(groups.map(group => group.id).join(), oldest.get(history) ?? 0)
      for (const group of groups) {
        const [id, state] = [Number(group.id), String(group.name)]
        const name = names.get(id)
        name?.check(state, oldest.get(name) ?? 0)
        assert.equal(shown.get(id) ?? state, state, 'a group has one name')
        shown.set(id, state)
      }
    }
  }
  async function changeMemberships(user: number, history: ReturnType<typeof createHistory>): Promise<void> {
    const joined = new Set<number>()
    for (let round = 0; round < ROUNDS; round++) {
      const [api, other, group] = [
        pick(clients, round),
        pick(clients, round + 1),
        pick(groups, round * 7 + user),
      ]
      const leaves = joined.delete(group)
      if (!leaves) joined.add(group)
      await history.write([...joined].sort((a, b) => a - b).join(), () =>
        leaves
          ? api.delete(`/v1/users/${user}/groups/${group}`)
          : api.post(`/v1/users/${user}/groups`, { id: group }),
      )
      await checkRead(other, user)
    }
  }
  async function renameGroups(): Promise<void> {
    for (let round = 1; round <= ROUNDS; round++) {
      const index = round % groups.length
      const name = `crowd ${index}:${round}`
      await names
        .get(pick(groups, index))
        ?.write(name, () => pick(clients, round).put(`/v1/groups/${groups[index]}`, { name }))
      await checkRead(pick(clients, round + 3), pick(users, round))
    }
  }
  async function read(api: Client): Promise<void> {
    while (writing) await checkRead(api, pick(users))
  }
  const readers = clients.slice(0, 3).map(read)
  const writers = [...[...members].map(([user, history]) => changeMemberships(user, history)), renameGroups()]
  await Promise.all(writers).finally(() => {
    writing = false
  })
  await Promise.all(readers)
  t.pass()
})
