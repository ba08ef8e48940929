// Races between requests: the database decides the outcome, and every response is a documented one, never a
// 500.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectOk } from '../support/expect.ts'
import type { Answer } from '../support/http.ts'
import { createGroups, createUser, createUsers, newGroup, newPerson } from '../support/records.ts'

const membershipsPerUser = 10
const { api, openClient, close } = await openApi({ workers: 2, config: { limits: { membershipsPerUser } } })
// Several connections, so that both workers receive requests.
const clients = Array.from({ length: 8 }, () => openClient())
test.after.always(close)

/** Sends `count` requests at once, distributed over the clients. */
const race = <T>(count: number, send: (client: typeof api, index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(
    Array.from({ length: count }, (_, index) => send(clients[index % clients.length] ?? api, index)),
  )

/** Counts the responses by status and code. */
function tally(answers: Answer[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, body } of answers) {
    const key = [status, body.meta.code].filter(Boolean).join(' ')
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

const groupsOf = async (user: number) =>
  ((await api.get(`/v1/users/${user}?include=groups`)).body.groups ?? []).map(({ id }) => id)

test.serial('concurrency: exactly one of 50 concurrent creates of the same user succeeds', async t => {
  for (let round = 0; round < 5; round++) {
    const pair = newPerson()
    t.deepEqual(tally(await race(50, client => client.post('/v1/users', pair))), {
      200: 1,
      '409 user_exists': 49,
    })
    t.is(await api.count(`/v1/users?last_name=${encodeURIComponent(pair.last_name)}`), 1)
    const group = newGroup()
    t.deepEqual(tally(await race(20, client => client.post('/v1/groups', group))), {
      200: 1,
      '409 group_exists': 19,
    })
  }
})

test.serial('concurrency: exactly one of 20 concurrent updates to the same names succeeds', async t => {
  const users = await createUsers(api, 20)
  const pair = newPerson()
  const answers = await race(20, (client, index) =>
    client[index % 2 === 0 ? 'put' : 'patch'](`/v1/users/${users[index]}`, pair),
  )
  t.deepEqual(tally(answers), { 200: 1, '409 user_exists': 19 })
})

test.serial(
  'concurrency: concurrent batches of the same users in different orders create each user once',
  async t => {
    const people = Array.from({ length: 60 }, newPerson)
    for (let round = 0; round < 3; round++) {
      for (const one of people) one.last_name += "'"
      const answers = await race(8, (client, index) => {
        const rotated = [...people.slice(index * 7), ...people.slice(0, index * 7)]
        return client.post('/v1/users', { users: index % 2 === 0 ? rotated : rotated.toReversed() })
      })
      for (const answer of answers) {
        expectOk(t, answer)
        const codes = answer.body.users?.map(({ meta }) => meta.code ?? meta.status) ?? []
        t.true(
          codes.every(code => code === 200 || code === 'user_exists'),
          String(codes),
        )
      }
      const created = answers.flatMap(({ body }) => (body.users ?? []).filter(({ id }) => id !== undefined))
      t.is(created.length, people.length)
      t.is(new Set(created.map(({ id }) => id)).size, people.length)
      t.deepEqual(created.map(user => user.last_name).sort(), people.map(one => one.last_name).sort())
      t.is(
        answers.reduce((sum, { body }) => sum + (body.meta.created ?? 0), 0),
        people.length,
      )
    }
  },
)

test.serial('concurrency: concurrent creates of one membership all succeed and create it once', async t => {
  const [user, [group]] = [await createUser(api), await createGroups(api, 1)]
  t.deepEqual(tally(await race(30, client => client.post(`/v1/users/${user}/groups`, { id: group }))), {
    200: 30,
  })
  t.deepEqual(await groupsOf(user), [group])
})

test.serial('concurrency: concurrent creates never exceed the limit of memberships', async t => {
  const groups = await createGroups(api, 30)
  const single = await createUser(api)
  const answers = await race(30, (client, index) =>
    client.post(`/v1/users/${single}/groups`, { id: groups[index] }),
  )
  t.deepEqual(tally(answers), { 200: membershipsPerUser, '400 limit_exceeded': 30 - membershipsPerUser })
  t.is((await groupsOf(single)).length, membershipsPerUser)

  const batched = await createUser(api)
  const batches = await race(6, (client, index) =>
    client.post(`/v1/users/${batched}/groups`, {
      groups: groups.slice(index * 5, index * 5 + 5).map(id => ({ id })),
    }),
  )
  t.deepEqual(tally(batches), { 200: 6 })
  t.is(
    batches.reduce((sum, { body }) => sum + (body.meta.created ?? 0), 0),
    membershipsPerUser,
  )
  t.is((await groupsOf(batched)).length, membershipsPerUser)
})

test.serial('concurrency: exactly one of 20 concurrent deletes succeeds', async t => {
  const [user, [group]] = [await createUser(api), await createGroups(api, 1)]
  await api.post(`/v1/users/${user}/groups`, { id: group })
  const removals = await race(20, client => client.delete(`/v1/users/${user}/groups/${group}`))
  t.deepEqual(tally(removals), { 200: 1, '404 membership_not_found': 19 })
  t.deepEqual(tally(await race(20, client => client.delete(`/v1/users/${user}`))), {
    200: 1,
    '404 user_not_found': 19,
  })
  t.deepEqual(tally(await race(20, client => client.delete(`/v1/groups/${group}`))), {
    200: 1,
    '404 group_not_found': 19,
  })
})

test.serial(
  'concurrency: deleting a user or a group during membership creation leaves no membership',
  async t => {
    for (let round = 0; round < 15; round++) {
      const [user, [deleted, kept]] = [await createUser(api), await createGroups(api, 2)]
      const deletedUser = await createUser(api)
      const answers = await race(18, (client, index) => {
        const kinds = [
          () => client.post(`/v1/users/${user}/groups`, { id: deleted }),
          () => client.post(`/v1/users/${deletedUser}/groups`, { groups: [{ id: deleted }, { id: kept }] }),
          () => client.get(`/v1/users/${deletedUser}?include=groups`),
          () => client.post(`/v1/users/${deletedUser}/groups`, { id: kept }),
          () => client.patch(`/v1/users/${deletedUser}`, newPerson()),
        ]
        if (index === 7) return client.delete(`/v1/groups/${deleted}`)
        if (index === 10) return client.delete(`/v1/users/${deletedUser}`)
        return kinds[index % kinds.length]?.() ?? client.get('/v1/users')
      })
      for (const { status, text } of answers) t.true(status === 200 || status === 404, text)
      t.deepEqual(await groupsOf(user), [])
      t.is((await api.get(`/v1/users/${deletedUser}`)).status, 404)
      t.is(await api.count(`/v1/users?groups[*].id=${deleted}`), 0)
      t.is(await api.count(`/v1/users?groups[*].id=${kept}`), 0)
    }
  },
)

test.serial('concurrency: requests for different pages that arrive together get their own', async t => {
  // Equal requests that are read in the same turn of the event loop share a page.
  const answers = await race(40, (client, index) =>
    client.get(`/v1/users?start_index=${index % 2}&records_per_page=1`),
  )
  t.deepEqual(
    answers.map(({ body }) => body.meta.start_index),
    answers.map((_, index) => index % 2),
  )
})

test.serial('concurrency: total_records and the page come from one snapshot', async t => {
  const last_name = 'Snapshot'
  const ids: number[] = []
  for (let index = 0; index < 20; index++)
    ids.push(await api.create('/v1/users', { first_name: `${index}`, last_name }))
  let writing = true
  const write = async (client: typeof api, from: number) => {
    for (let round = 0; round < 20; round++) {
      const made = await client.post('/v1/users', {
        users: [0, 1, 2].map(index => ({ first_name: `${from} ${round} ${index}`, last_name })),
      })
      for (const { id } of made.body.users ?? []) await client.delete(`/v1/users/${id}`)
    }
  }
  const read = async (client: typeof api) => {
    let reads = 0
    for (; writing; reads++) {
      const { users, meta } = (await client.get(`/v1/users?last_name=${last_name}&records_per_page=1000`))
        .body
      t.is(users?.length, meta.total_records)
    }
    return reads
  }
  const readers = clients.slice(4).map(read)
  await Promise.all(clients.slice(0, 4).map(write)).finally(() => {
    writing = false
  })
  const reads = await Promise.all(readers)
  t.true(reads.every(count => count > 0))
  t.is(await api.count(`/v1/users?last_name=${last_name}`), ids.length)
})

test.serial(
  'concurrency: a page with include meets its own filter while the related record changes',
  async t => {
    const [group = 0] = await createGroups(api, 1)
    const users = await createUsers(api, 3)
    await api.post(`/v1/groups/${group}/users`, { users: users.map(id => ({ id })) })
    let isOver = false
    const read = async (client: typeof api) => {
      while (!isOver) {
        const answer = await client.get('/v1/users?groups[*].name=red&include=groups')
        const names = (answer.body.users ?? []).flatMap(({ groups = [] }) => groups.map(({ name }) => name))
        t.true(names.every(name => name === 'red'))
        t.is(answer.body.meta.total_records, names.length)
      }
    }
    const reads = clients.slice(1).map(read)
    for (let n = 0; n < 100; n++)
      await api.patch(`/v1/groups/${group}`, { name: n % 2 === 0 ? 'red' : 'blue' })
    isOver = true
    await Promise.all(reads)
  },
)
