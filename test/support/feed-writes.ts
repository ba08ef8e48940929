// Random writes of users, groups and memberships, and the events that they must have in the change feed.
import type { Write } from './feed-model.ts'
import type { Answer, Client } from './http.ts'

/** An id that no record has. */
const UNKNOWN = 999_999

export const below = (count: number) => Math.floor(Math.random() * count)
export const chance = (probability: number) => Math.random() < probability
export const pick = <T>(list: readonly T[]): T | undefined => list[below(list.length)]
export const some = <T>(list: readonly T[], max: number): T[] =>
  Array.from({ length: 1 + below(max) }, () => pick(list)).filter(item => item !== undefined)

let count = 0
const person = () => ({ first_name: 'model', last_name: `${++count}` })
const team = () => ({ name: `model ${++count}` })
/** Ids of records that have existed. */
export const users: number[] = []
export const groups: number[] = []
export const writes = new Map<string, Write>()

/** The events of the first entries of a response that are stored. */
const stored = (answer: Answer, name: 'users' | 'groups', type: string, count = Infinity): string[] =>
  (answer.body[name] ?? [])
    .slice(0, count)
    .flatMap(({ id, meta }) => (meta.status === 200 ? `${type} ${id}` : []))

/** Sends a write, and notes the events that it must have: none if it is refused. */
async function ask(
  send: (headers: Record<string, string>) => Promise<Answer>,
  events: (answer: Answer) => string[],
  rule?: Write['rule'],
): Promise<Answer> {
  const request = `model-${++count}`
  const begunMs = performance.now()
  const answer = await send({ 'request-id': request })
  const endedMs = performance.now()
  if (answer.status >= 500) throw new Error(answer.text)
  writes.set(request, { begunMs, endedMs, events: answer.status === 200 ? events(answer) : [], rule })
  return answer
}

export async function createUser(client: Client): Promise<Answer> {
  const answer = await ask(
    headers => client.post('/v1/users', person(), headers),
    ({ body }) => [`user.created ${body.id}`],
  )
  users.push(answer.body.id ?? 0)
  return answer
}

async function createGroup(client: Client): Promise<void> {
  const answer = await ask(
    headers => client.post('/v1/groups', team(), headers),
    ({ body }) => [`group.created ${body.id}`],
  )
  groups.push(answer.body.id ?? 0)
}

/** The requests that change a user and a group which have existed. */
const changes: readonly ((client: Client, user: number, group: number) => Promise<unknown>)[] = [
  createUser,
  createGroup,
  async client => {
    const one = person()
    const list = [one, ...Array.from({ length: below(chance(0.1) ? 900 : 20) }, person), one, {}]
    const answer = await ask(
      headers => client.post('/v1/users', { users: list }, headers),
      answer => stored(answer, 'users', 'user.created'),
    )
    users.push(...(answer.body.users ?? []).flatMap(({ id }) => id ?? []).slice(0, 10))
  },
  (client, user) =>
    ask(
      headers => client.patch(`/v1/users/${user}`, person(), headers),
      () => [`user.updated ${user}`],
    ),
  (client, user) =>
    ask(
      headers => client.patch(`/v1/users/${user}`, {}, headers),
      () => [],
    ),
  (client, _, group) =>
    ask(
      headers => client.put(`/v1/groups/${group}`, team(), headers),
      () => [`group.updated ${group}`],
    ),
  client => {
    const changed = some(users, 30).map(id => ({ id, ...person() }))
    const list = [...changed, { id: UNKNOWN, ...person() }, ...some(users, 3).map(id => ({ id }))]
    return ask(
      headers => client.patch('/v1/users', { users: list }, headers),
      answer => stored(answer, 'users', 'user.updated', changed.length),
    )
  },
  client => {
    const list = some(groups, 4).map(id => ({ id, ...team() }))
    return ask(
      headers => client.patch('/v1/groups', { groups: list }, headers),
      answer => stored(answer, 'groups', 'group.updated'),
    )
  },
  (client, user) =>
    ask(
      headers => client.delete(`/v1/users/${user}`, headers),
      () => [`user.deleted ${user}`],
    ),
  client =>
    ask(
      headers => client.delete(`/v1/users?id[in]=${some(users, 5)}`, headers),
      answer => stored(answer, 'users', 'user.deleted'),
    ),
  (client, _, group) =>
    ask(
      headers => client.delete(`/v1/groups/${group}`, headers),
      () => [`group.deleted ${group}`],
      'members',
    ),
  client =>
    ask(
      headers => client.delete(`/v1/groups?id[in]=${some(groups, 2)}`, headers),
      answer => stored(answer, 'groups', 'group.deleted'),
      'members',
    ),
  (client, user, group) =>
    ask(
      headers => client.delete(`/v1/users/${user}/groups/${group}`, headers),
      () => [`membership.deleted ${user} ${group}`],
    ),
  (client, _, group) =>
    ask(
      headers => client.delete(`/v1/groups/${group}/users?id[in]=${some(users, 10)}`, headers),
      answer => stored(answer, 'users', 'membership.deleted').map(text => `${text} ${group}`),
    ),
  (client, _, group) => {
    const list = [...new Set(some(users, chance(0.2) ? 300 : 20))].map(id => ({ id }))
    return ask(
      headers => client.post(`/v1/groups/${group}/users`, { users: list }, headers),
      answer => stored(answer, 'users', 'membership.created').map(text => `${text} ${group}`),
      'some',
    )
  },
  async client => {
    const [body, key] = [person(), { 'idempotency-key': `key-${++count}` }]
    const send = (headers: object) => client.post('/v1/users', body, { ...headers, ...key })
    await ask(send, ({ body }) => [`user.created ${body.id}`])
    await ask(send, () => [])
  },
]

/** Sends a random write. */
export async function write(client: Client): Promise<void> {
  const [user, group] = [pick(users), pick(groups)]
  if (user === undefined || users.length < 50) await createUser(client)
  else if (group === undefined || groups.length < 10) await createGroup(client)
  else await pick(changes)?.(client, user, group)
}
