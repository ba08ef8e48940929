// The change feed over HTTP: each stored change is one event, pages and filters, requests that wait, and streams.
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import test, { type ExecutionContext } from 'ava'
import mysql from 'mysql2/promise'
import { openApi } from '../support/api-suite.ts'
import { openEventStream } from '../support/event-stream.ts'
import { executeOn } from '../support/execute.ts'
import { expectError, expectOk } from '../support/expect.ts'
import type { Answer } from '../support/http.ts'
import { apiKey } from '../support/issuer.ts'
import { createOperator } from '../support/operator.ts'
import { runNode } from '../support/run-to-end.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

// The status shows what the workers have reported in their heartbeats.
const fleet = { beatMs: 50 }
const { service, api, openClient, close } = await openApi({ workers: 2, config: { fleet } })
test.after.always(close)

interface Change {
  readonly id: number
  readonly type: string
  readonly user_id?: number
  readonly group_id?: number
  readonly at: string
  readonly by: string | null
  readonly request_id: string
}

const changesIn = (answer: Answer): Change[] => JSON.parse(answer.text).changes
const linkIn = (answer: Answer) => answer.body.meta.links?.next ?? ''

let count = 0
const person = () => ({ first_name: 'feed', last_name: `${++count}` })
const group = () => ({ name: `feed ${++count}` })

/** The position in the link to the next page. */
function positionIn(answer: Answer): number {
  if (answer.status !== 200) throw new Error(answer.text)
  return Number(/[?&]after=(\d+)/.exec(linkIn(answer))?.[1])
}

/** Reads from a position up to a change that is made now. @returns the changes before this one, and its position */
async function readOn(position: number) {
  const id = await api.create('/v1/users', person())
  const changes: Change[] = []
  for (let after = position; ; ) {
    const answer = await api.get(`/v1/changes?after=${after}&wait=10`)
    after = positionIn(answer)
    changes.push(...changesIn(answer))
    const last = changes.findIndex(({ user_id }) => user_id === id)
    if (last !== -1) return { changes: changes.slice(0, last), end: changes[last]?.id ?? 0 }
  }
}

/** The end of the feed. Earlier changes have their numbers. */
const endOfFeed = async () => (await readOn(positionIn(await api.get('/v1/changes?after=latest')))).end

const changesSince = async (position: number) => (await readOn(position)).changes

const summary = ({ type, user_id, group_id }: Change) =>
  [type, user_id, group_id].filter(part => part !== undefined).join(' ')

test.serial('events: each stored change has one, with its request, in the order of the changes', async t => {
  const start = await endOfFeed()
  const headers = (id: string) => ({ 'request-id': id })
  const user = (await api.post('/v1/users', person(), headers('r1'))).body.id ?? 0
  const team = (await api.post('/v1/groups', group(), headers('r2'))).body.id ?? 0
  await api.patch(`/v1/users/${user}`, { first_name: 'patched' }, headers('r3'))
  await api.put(`/v1/users/${user}`, { last_name: `put ${++count}` }, headers('r4'))
  await api.post(`/v1/users/${user}/groups`, { id: team }, headers('r5'))
  await api.delete(`/v1/users/${user}/groups/${team}`, headers('r6'))
  await api.post(`/v1/groups/${team}/users`, { id: user }, headers('r7'))
  await api.patch(`/v1/groups/${team}`, group(), headers('r8'))
  await api.delete(`/v1/groups/${team}`, headers('r9'))
  await api.delete(`/v1/users/${user}`, headers('r10'))
  const changes = await changesSince(start)
  t.deepEqual(
    changes.map(change => `${change.request_id} ${summary(change)}`),
    [
      `r1 user.created ${user}`,
      `r2 group.created ${team}`,
      `r3 user.updated ${user}`,
      `r4 user.updated ${user}`,
      `r5 membership.created ${user} ${team}`,
      `r6 membership.deleted ${user} ${team}`,
      `r7 membership.created ${user} ${team}`,
      `r8 group.updated ${team}`,
      `r9 group.deleted ${team}`,
      `r10 user.deleted ${user}`,
    ],
  )
  const [first] = changes
  t.deepEqual(Object.keys(first ?? {}), ['id', 'type', 'user_id', 'at', 'by', 'request_id'])
  t.deepEqual(Object.keys(changes[4] ?? {}), ['id', 'type', 'user_id', 'group_id', 'at', 'by', 'request_id'])
  for (const [at, change] of changes.entries()) {
    t.is(change.id, (first?.id ?? 0) + at)
    t.is(change.by, null)
    t.regex(change.at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  }
})

test.serial('events: batches have one for each entry that was stored', async t => {
  const start = await endOfFeed()
  const first = person()
  const created = await api.post('/v1/users', { users: [first, first, {}, person()] })
  const ids = (created.body.users ?? []).flatMap(({ id }) => id ?? [])
  const team = await api.create('/v1/groups', group())
  const users = [{ id: ids[0] }, { id: 999_999 }, { id: ids[1] }, { id: ids[0] }]
  await api.post(`/v1/groups/${team}/users`, { users })
  t.is(ids.length, 2)
  t.deepEqual((await changesSince(start)).map(summary), [
    ...ids.map(id => `user.created ${id}`),
    `group.created ${team}`,
    ...ids.map(id => `membership.created ${id} ${team}`),
  ])
})

test.serial('events: refused writes, writes that change nothing and replayed requests have none', async t => {
  const [one, other] = [person(), person()]
  const user = await api.create('/v1/users', one)
  await api.create('/v1/users', other)
  const named = group()
  const team = await api.create('/v1/groups', named)
  await api.post(`/v1/users/${user}/groups`, { id: team })
  const key = { 'idempotency-key': `feed-${++count}` }
  const keyed = person()
  await api.post('/v1/users', keyed, key)
  const start = await endOfFeed()
  const stale = { 'if-match': '"1"' }
  const answers = [
    await api.post('/v1/users', keyed, key),
    await api.post('/v1/users', one),
    await api.post('/v1/users', {}),
    await api.post('/v1/users', one, { 'idempotency-key': `feed-${++count}` }),
    await api.patch(`/v1/users/${user}`, {}),
    await api.patch(`/v1/users/${user}`, { first_name: one.first_name }),
    await api.put(`/v1/users/${user}`, one),
    await api.patch('/v1/users', { users: [{ id: user, ...one }] }),
    await api.patch(`/v1/groups/${team}`, named),
    await api.patch(`/v1/users/${user}`, other),
    await api.patch(`/v1/users/${user}`, { first_name: 'x' }, stale),
    await api.patch('/v1/users/999999', { first_name: 'x' }),
    await api.delete('/v1/users/999999'),
    await api.delete(`/v1/users/${user}`, stale),
    await api.post(`/v1/users/${user}/groups`, { id: team }),
    await api.post(`/v1/users/${user}/groups`, { id: 999_999 }),
    await api.delete(`/v1/users/${user}/groups/999999`),
  ]
  t.deepEqual(
    answers.map(({ status }) => status),
    [200, 409, 400, 409, 200, 200, 200, 200, 200, 409, 412, 404, 404, 412, 200, 404, 404],
  )
  t.deepEqual(await changesSince(start), [])
})

test.serial('pages: all pages together are the feed, from the oldest event on', async t => {
  const start = await endOfFeed()
  const created: number[] = []
  for (let n = 0; n < 7; n++) created.push(await api.create('/v1/users', person()))
  await changesSince(start)
  const first = await api.get('/v1/changes?records_per_page=1')
  expectOk(t, first)
  t.is(first.body.meta.message, '1 change')
  t.is(changesIn(first)[0]?.id, 1)
  t.is(linkIn(first), '/v1/changes?after=1&records_per_page=1')
  t.deepEqual(changesIn(await api.get('/v1/changes?after=0&records_per_page=1')), changesIn(first))
  const whole = changesIn(await api.get('/v1/changes?records_per_page=1000'))
  const ids: number[] = []
  for (let next = '/v1/changes?records_per_page=3'; ids.length < whole.length; ) {
    const answer = await api.get(next)
    ids.push(...changesIn(answer).map(({ id }) => id))
    next = linkIn(answer)
  }
  t.deepEqual(
    ids,
    whole.map((_, at) => at + 1),
  )
})

test.serial('filters: a page has the selected events, and its link moves on past the others', async t => {
  const start = await endOfFeed()
  const [user, other] = [await api.create('/v1/users', person()), await api.create('/v1/users', person())]
  const team = await api.create('/v1/groups', group())
  await api.post(`/v1/users/${user}/groups`, { id: team })
  await api.delete(`/v1/users/${other}`)
  await changesSince(start)
  const select = async (query: string) =>
    changesIn(await api.get(`/v1/changes?after=${start}&${query}`)).map(summary)
  t.deepEqual(await select(`user_id=${user}`), [`user.created ${user}`, `membership.created ${user} ${team}`])
  t.deepEqual(await select(`group_id=${team}`), [
    `group.created ${team}`,
    `membership.created ${user} ${team}`,
  ])
  t.deepEqual(await select(`user_id=${other}&group_id=${team}`), [])
  t.deepEqual(await select('type=user.deleted,group.created'), [
    `group.created ${team}`,
    `user.deleted ${other}`,
  ])
  t.deepEqual(await select('type=user.deleted&type=group.created'), [
    `group.created ${team}`,
    `user.deleted ${other}`,
  ])
  const none = await api.get(`/v1/changes?after=${start}&user_id=999999`)
  t.deepEqual(changesIn(none), [])
  const latest = linkIn(await api.get('/v1/changes?after=latest'))
  t.is(linkIn(none), latest.replace('?', '?user_id=999999&'))
  const one = await api.get(`/v1/changes?after=${start}&records_per_page=1&user_id=${user}`)
  t.deepEqual(changesIn(one).map(summary), [`user.created ${user}`])
  t.deepEqual(changesIn(await api.get(linkIn(one))).map(summary), [`membership.created ${user} ${team}`])
})

test.serial('parameters: faults are reported with what is allowed', async t => {
  const invalid = async (query: string, ...faults: [string, string][]) => {
    const answer = await api.get(`/v1/changes?${query}`)
    expectError(t, answer, 400, faults[0]?.[1] ?? '')
    t.deepEqual(
      answer.body.meta.errors?.map(({ parameter, code }) => [parameter, code]),
      faults,
    )
  }
  for (const after of ['x', '-1', '01', '', '9007199254740992'])
    await invalid(`after=${after}`, ['after', 'invalid_parameter'])
  const misspelled = await api.get('/v1/changes?after=last')
  t.regex(
    misspelled.body.meta.message ?? '',
    /^after: "last" is neither "latest" nor an integer from 0 to \d+$/,
  )
  await invalid('after=1&after=2', ['after', 'invalid_parameter'])
  await invalid('type=user.renamed', ['type', 'invalid_parameter'])
  await invalid('user_id=0&group_id=x', ['user_id', 'invalid_parameter'], ['group_id', 'invalid_parameter'])
  await invalid('wait=0', ['wait', 'invalid_parameter'])
  await invalid('wait=61', ['wait', 'limit_exceeded'])
  await invalid('records_per_page=1001', ['records_per_page', 'limit_exceeded'])
  await invalid('id=1', ['id', 'unknown_parameter'])
  expectError(t, await api.get('/v1/changes?after=999999999'), 410, 'changes_expired')
  expectError(t, await api.post('/v1/changes', {}), 405, 'method_not_allowed')
  expectError(t, await api.get('/v1/changes', { 'last-event-id': 'x' }), 400, 'malformed_request')
  const html = await api.get('/v1/changes', { accept: 'text/html' })
  expectError(t, html, 406, 'not_acceptable')
  t.regex(html.text, /application\/json or text\/event-stream/)
})

test.serial('wait: a request is answered by the first selected event, or empty at its time', async t => {
  const start = await endOfFeed()
  const user = await api.create('/v1/users', person())
  const [clientA, clientB] = [openClient(), openClient()]
  const operator = createOperator(service)
  await operator.until(({ changes }) => changes?.readers === 0)
  const waits = [
    clientA.get('/v1/changes?after=latest&wait=60&type=group.created'),
    clientB.get(`/v1/changes?after=${start}&wait=60&type=group.created`),
  ]
  // The first one has read the end of the feed then.
  await operator.until(({ changes }) => changes?.readers === waits.length)
  t.deepEqual(changesIn(await api.get(`/v1/changes?after=${start}&wait=1&type=group.deleted`)), [])
  const team = await api.create('/v1/groups', group())
  for (const answer of await Promise.all(waits)) {
    expectOk(t, answer)
    t.deepEqual(changesIn(answer).map(summary), [`group.created ${team}`])
  }
  t.true(user > 0)
})

test.serial('stream: readers of all workers get the same events, and come back where they were', async t => {
  const start = await endOfFeed()
  const url = `${service.url}/v1/changes`
  const streams = await Promise.all(
    [`?after=${start}`, '?after=latest', '?after=latest&type=user.created'].map(query =>
      openEventStream(url + query),
    ),
  )
  const [all] = streams
  t.is(all?.headers['cache-control'], 'no-store')
  await all?.until(() => all.blocks().length > 0)
  t.deepEqual(all?.blocks()[0], { retry: '3000', id: `${start}` })
  const users: number[] = []
  for (let n = 0; n < 20; n++) users.push(await api.create('/v1/users', person()))
  const expected = users.map(id => `user.created ${id}`)
  for (const stream of streams) {
    await stream.until(() => stream.events().length >= users.length)
    const changes = stream.events().map(({ data = '' }): Change => JSON.parse(data))
    t.deepEqual(changes.map(summary), expected)
    t.deepEqual(
      stream.events().map(({ id, event }) => [id, event]),
      changes.map(({ id, type }) => [`${id}`, type]),
    )
    stream.close()
  }
  const tenth = all?.events()[9]?.id ?? ''
  const resumed = await openEventStream(`${url}?after=latest`, { 'last-event-id': tenth })
  await resumed.until(() => resumed.blocks().length > 0)
  t.deepEqual(resumed.blocks()[0], { retry: '3000', id: tenth })
  await resumed.until(() => resumed.events().length >= 10)
  t.deepEqual(resumed.events(), all?.events().slice(10))
  resumed.close()
  const withoutPosition = await openEventStream(`${url}?after=${tenth}`, { 'last-event-id': '' })
  await withoutPosition.until(() => withoutPosition.events().length >= 10)
  t.deepEqual(withoutPosition.events(), all?.events().slice(10))
  withoutPosition.close()
  for (const [accept, type] of [
    ['text/event-stream', 'text/event-stream'],
    ['text/event-stream;charset=utf-8', 'text/event-stream'],
    ['application/json;charset=UTF-8, text/event-stream;q=0.5', 'application/json'],
    ['*/*', 'application/json'],
  ] as const) {
    const head = await api.send('HEAD', '/v1/changes', { accept })
    t.is(head.status, 200, accept)
    t.is(head.headers['content-type'], `${type}; charset=utf-8`, accept)
  }
  expectError(t, await api.get('/v1/changes', { 'last-event-id': '999999999' }), 410, 'changes_expired')
})

test.serial(
  'stream: a reader that does not read costs no memory, and gets everything when it reads',
  async t => {
    const start = await endOfFeed()
    const stream = await openEventStream(`${service.url}/v1/changes?after=${start}`)
    stream.pause()
    const users = Array.from({ length: 1000 }, person)
    for (let n = 0; n < 12; n++)
      await api.post('/v1/users', {
        users: users.map(({ last_name }) => ({ first_name: `${n}`, last_name })),
      })
    stream.resume()
    await stream.until(() => stream.events().length >= 12_000)
    const ids = stream.events().map(({ id }) => Number(id))
    t.deepEqual(
      ids,
      ids.map((_, at) => (ids[0] ?? 0) + at),
    )
    stream.close()
  },
)

test.serial('stream: nothing is left of clients that disconnect before their stream begins', async t => {
  const { host, hostname, port } = new URL(service.url)
  const operator = createOperator(service)
  const other = await mysql.createConnection(service.database)
  t.teardown(() => other.end())
  await operator.until(({ ports }) => ports.http?.in_flight === 0)
  await other.query('LOCK TABLES changes WRITE')
  const sockets = Array.from({ length: 20 }, () => connect(Number(port), hostname))
  for (const socket of sockets)
    socket.write(`GET /v1/changes?after=0 HTTP/1.1\r\nHost: ${host}\r\nAccept: text/event-stream\r\n\r\n`)
  await operator.until(({ ports }) => ports.http?.in_flight === sockets.length)
  for (const socket of sockets) socket.resetAndDestroy()
  await operator.until(({ ports }) => ports.http?.in_flight === 0)
  await other.query('UNLOCK TABLES')
  // Reads of a worker are in the order of their requests, so those of the streams end before these.
  const clients = sockets.map(() => openClient(service.url))
  for (const answer of await Promise.all(clients.map(client => client.get('/v1/changes?after=0'))))
    t.is(answer.status, 200)
  const stream = await openEventStream(`${service.url}/v1/changes?after=latest`)
  await operator.until(({ changes }) => changes?.readers === 1)
  stream.close()
})

test.serial('stream: one that is closed without a reset is forgotten at once', async t => {
  const operator = createOperator(service)
  await operator.until(({ changes }) => changes?.readers === 0)
  // More than the database connections of both workers: a stream holds none.
  const streams = await Promise.all(
    Array.from({ length: 30 }, () => openEventStream(`${service.url}/v1/changes?after=latest`)),
  )
  await operator.until(({ changes }) => changes?.readers === streams.length)
  for (const stream of streams) stream.closeSilently()
  // Before the first heartbeat, which comes after 15 s.
  await operator.until(({ changes, ports }) => changes?.readers === 0 && ports.http?.in_flight === 0, 10_000)
  t.pass()
})

test.serial('wait: a client that ends its side of the connection gets its answer at once', async t => {
  const { host, hostname, port } = new URL(service.url)
  const operator = createOperator(service)
  await operator.until(({ changes }) => changes?.readers === 0)
  const end = await endOfFeed()
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
  socket.write(`GET /v1/changes?after=${end}&wait=60 HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  await operator.until(({ changes }) => changes?.readers === 1)
  const answer = text(socket.end())
  await operator.until(({ changes, ports }) => changes?.readers === 0 && ports.http?.in_flight === 0)
  t.regex(await answer, /^HTTP\/1\.1 200 /)
})

/**
 * Changes some users with one request, to names that contain the id of the request. In a list, some entries fail.
 * @param taken the name of another user
 * @returns the entries of the response
 */
async function patchSome(
  t: ExecutionContext,
  client: typeof api,
  ids: readonly number[],
  request: string,
  taken: object,
) {
  const headers = { 'request-id': request }
  const nameOf = (id: number) => ({ first_name: `${request} ${id}` })
  const users = ids.map(id => ({ id, ...(id % 10 === 3 ? taken : nameOf(id)) }))
  const [first = 0, ...others] = ids
  const answer =
    others.length === 0
      ? await client.patch(`/v1/users/${first}`, nameOf(first), headers)
      : await client.patch('/v1/users', { users }, headers)
  expectOk(t, answer)
  return answer.body.users ?? [answer.body]
}

test.serial(
  'order: the feed explains the state after changes of many records beside changes of one',
  async t => {
    const start = await endOfFeed()
    const { body } = await api.post('/v1/users', { users: Array.from({ length: 60 }, person) })
    const ids = (body.users ?? []).flatMap(({ id }) => id ?? [])
    const taken = person()
    await api.create('/v1/users', taken)
    /** The values that were stored, by request and record. */
    const stored = new Map<string, string>()
    const rename = async (client: typeof api, some: readonly number[], request: string) => {
      for (const { id = 0, first_name, meta } of await patchSome(t, client, some, request, taken))
        if (meta.code === undefined) stored.set(`${request} ${id}`, `${first_name}`)
        else t.is(meta.code, 'user_exists')
    }
    await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const client = openClient()
        const [rounds, size] = index < 4 ? [10, 40] : [60, 1]
        for (let n = 0; n < rounds; n++) {
          const from = (index * 17 + n * 7) % ids.length
          // In different orders, so that requests wait for each other's records.
          const rotated = [...ids.slice(from), ...ids.slice(0, from)]
          await rename(client, rotated.slice(0, size), `order-${index}-${n}`)
        }
      }),
    )

    const last = new Map<number, string | undefined>()
    for (const { type, user_id = 0, request_id } of await changesSince(start)) {
      if (type !== 'user.updated') continue
      const change = `${request_id} ${user_id}`
      last.set(user_id, stored.get(change))
      t.true(stored.delete(change), `${request_id} has an event for each change of ${user_id}`)
    }
    t.is(stored.size, 0)
    const records = (await api.get(`/v1/users?id[in]=${ids}`)).body.users ?? []
    t.deepEqual(
      records.map(({ id = 0 }) => [id, last.has(id) ? last.get(id) : 'feed']),
      records.map(({ id = 0, first_name }) => [id, first_name]),
    )
  },
)

test.serial('wait: a request looks through the whole feed for what it selects, before it waits', async t => {
  const team = await api.create('/v1/groups', group())
  await endOfFeed()
  const operator = createOperator(service)
  await operator.until(({ changes }) => changes?.readers === 0)
  const waiting = openClient().get(`/v1/changes?after=0&group_id=${team}&type=group.deleted&wait=60`)
  await operator.until(({ changes }) => changes?.readers === 1)
  await api.delete(`/v1/groups/${team}`)
  const answer = await waiting
  t.deepEqual(changesIn(answer).map(summary), [`group.deleted ${team}`])
  t.deepEqual(
    changesIn(answer).map(({ id }) => id),
    [positionIn(answer)],
  )
})

test.serial('stream: readers of the same events with different selections get their own', async t => {
  const start = await endOfFeed()
  await api.create('/v1/users', person())
  await api.create('/v1/groups', group())
  await api.create('/v1/users', person())
  await endOfFeed()
  const url = `${service.url}/v1/changes?after=${start}`
  // All streams of one worker begin and end with the same events.
  for (let n = 0; n < 4; n++) {
    const all = await openEventStream(url)
    await all.until(() => all.events().length >= 4)
    all.close()
    const some = await openEventStream(`${url}&type=user.created`)
    await some.until(() => some.events().length >= 3)
    t.deepEqual(
      some.events().map(({ event }) => event),
      ['user.created', 'user.created', 'user.created'],
    )
    some.close()
  }
})

test.serial(
  'events: those that a killed process has left without a number get it within a few seconds',
  async t => {
    const start = await endOfFeed()
    const events = '[{"type":"user.created","ids":{"user_id":[7]},"by":null,"request_id":"left"}]'
    await executeOn(
      service.database,
      `INSERT INTO change_queue (at, amount, events) VALUES (UTC_TIMESTAMP(3), 1, '${events}')`,
    )
    const answer = await api.get(`/v1/changes?after=${start}&wait=10`)
    t.deepEqual(
      changesIn(answer).map(({ request_id }) => request_id),
      ['left'],
    )
  },
)

test.serial(
  'waiting: a session that holds the head holds up events, not writes, and the metrics show it',
  async t => {
    const operator = createOperator(service)
    const holder = await mysql.createConnection(service.database)
    t.teardown(() => holder.destroy())
    await holder.beginTransaction()
    await holder.query('SELECT * FROM change_head FOR UPDATE')
    expectOk(t, await api.post('/v1/users', { users: [person(), person()] }))
    await operator.until(({ changes }) => (changes?.waiting_seconds ?? 0) > 1)
    t.is((await operator.status()).changes?.waiting, 2)
    const metrics = await (await fetch(`${service.controlUrl}/metrics`)).text()
    t.regex(metrics, /^users_api_changes_waiting\{.*\} 2$/m)
    t.regex(metrics, /^users_api_changes_waiting_seconds\{.*\} [1-9]/m)
    await holder.rollback()
    await operator.until(({ changes }) => changes?.waiting === 0)
  },
)

test('stream: a heartbeat moves the position on past events that are not selected', async t => {
  const quiet = await startService()
  t.teardown(() => quiet.stop())
  const client = openClient(quiet.url)
  const stream = await openEventStream(`${quiet.url}/v1/changes?type=group.created`)
  await stream.until(() => stream.blocks().length === 1)
  await client.create('/v1/users', person())
  await stream.until(() => stream.blocks().length === 2)
  t.deepEqual(stream.blocks()[1], { id: '1' })
  stream.close()
  await quiet.stop()
})

test.serial(
  'drain: requests that wait are answered at once, streams end after the delay, between two events',
  async t => {
    const drained = await startService({ config: { fleet, drain: { delayMs: 10_000 } } })
    t.teardown(() => drained.stop())
    const operator = createOperator(drained)
    const client = openClient(drained.url)
    const waiting = client.get('/v1/changes?after=latest&wait=60')
    const stream = await openEventStream(`${drained.url}/v1/changes`)
    await operator.until(({ ports }) => ports.http?.in_flight === 2)
    await operator.run('drain', 'http')
    const answer = await waiting
    t.deepEqual(changesIn(answer), [])
    t.is(answer.headers.connection, 'close')
    // One that arrives now does not wait either.
    t.deepEqual(changesIn(await client.get('/v1/changes?after=latest&wait=60')), [])
    t.false(stream.hasEnded())
    const user = await client.create('/v1/users', person())
    await stream.untilEnd()
    t.is(stream.rest(), '')
    t.deepEqual(
      stream.events().map(({ event }) => event),
      ['user.created'],
    )
    await operator.until(({ ports }) => ports.http?.state === 'drained')
    await operator.run('resume', 'http')
    const back = await openEventStream(`${drained.url}/v1/changes`, {
      'last-event-id': stream.position() ?? '',
    })
    await client.delete(`/v1/users/${user}`)
    await back.until(() => back.events().length === 1)
    drained.supervisor.kill('SIGTERM')
    await operator.until(({ ports }) => ports.http?.state !== 'serving')
    // A second signal skips the drain delay.
    await drained.stop()
    t.true(back.hasEnded())
    t.is(back.rest(), '')
  },
)

test.serial(
  'expire-changes: every position that was given out until now is 410, also in a stream',
  async t => {
    const stream = await openEventStream(`${service.url}/v1/changes?after=latest`)
    await stream.until(() => stream.blocks().length > 0)
    const position = stream.position() ?? ''
    const env = { ...process.env, DATABASE_URL: service.database }
    const help = await runNode('dist/expire-changes.js', ['--help'], env)
    t.is(help.code, 0)
    t.regex(help.stdout, /^usage: npm run expire-changes\n/)
    t.is((await runNode('dist/expire-changes.js', ['now'], env)).code, 2)
    t.is((await api.get(`/v1/changes?after=${position}`)).status, 200)
    const waiting = openClient().get(`/v1/changes?after=${position}&wait=60`)
    const command = await runNode('dist/expire-changes.js', [], env)
    t.is(command.code, 0, command.stderr)
    await stream.untilEnd()
    expectError(t, await waiting, 410, 'changes_expired')
    expectError(t, await api.get(`/v1/changes?after=${position}`), 410, 'changes_expired')
    expectError(t, await api.get('/v1/changes?after=0'), 410, 'changes_expired')
    const start = await endOfFeed()
    const user = await api.create('/v1/users', person())
    t.deepEqual((await changesSince(start)).map(summary), [`user.created ${user}`])
  },
)

test.serial('keepSeconds 0: there is no feed, writes record nothing, and its positions expire', async t => {
  const { database } = service
  const start = await endOfFeed()
  const off = await startService({ database, config: { changes: { keepSeconds: 0 } } })
  t.teardown(() => off.stop())
  const client = openClient(off.url)
  expectError(t, await client.get('/v1/changes'), 404, 'route_not_found')
  const paths: object = JSON.parse((await client.get('/v1/openapi.json')).text).paths
  t.false('/v1/changes' in paths)
  const user = await client.create('/v1/users', person())
  t.is(await off.stop(), 0)
  t.deepEqual(await executeOn(database, `SELECT * FROM changes WHERE events LIKE '%[${user}]%'`), [])
  const on = await startService({ database })
  t.teardown(() => on.stop())
  expectError(t, await openClient(on.url).get(`/v1/changes?after=${start}`), 410, 'changes_expired')
  await on.stop()
})

test.serial('keepSeconds: events go after it, and their positions expire', async t => {
  const short = await startService({ config: { changes: { keepSeconds: 1 } } })
  t.teardown(() => short.stop())
  const client = openClient(short.url)
  await client.create('/v1/users', person())
  // The service looks for old events every few seconds.
  await until(async () => (await client.get('/v1/changes?after=0')).status === 410, { everyMs: 100 })
  t.deepEqual(changesIn(await client.get('/v1/changes')), [])
  // The positions expire first.
  const countSql = 'SELECT COUNT(*) AS count FROM changes'
  await until(async () => JSON.stringify(await executeOn(short.database, countSql)) === '[{"count":0}]', {
    everyMs: 100,
  })
  await short.stop()
})

test.serial('callers: an event has the name of its caller, and a reader needs the scope read', async t => {
  const keys = [apiKey('writer@1', 'write', 'w'), apiKey('reader', 'read', 'r')]
  const closed = await startService({ config: { auth: { keys, jwt: null } } })
  t.teardown(() => closed.stop())
  const client = openClient(closed.url)
  const as = (token: string) => ({ authorization: `Bearer ${token}` })
  await client.post('/v1/users', person(), as('w'))
  expectError(t, await client.get('/v1/changes'), 401, 'unauthorized')
  const by = async (t: ExecutionContext, token: string) => {
    const answer = await client.get('/v1/changes?after=0&wait=60', as(token))
    expectOk(t, answer)
    return changesIn(answer).map(change => change.by)
  }
  t.deepEqual(await by(t, 'r'), ['writer@1'])
  t.deepEqual(await by(t, 'w'), ['writer@1'])
  await closed.stop()
})
