// A load whose acknowledged changes must each be in the change feed exactly once, and readers of the feed that must all get
// the same sequence.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type EventStream, openEventStream } from './event-stream.ts'
import { type Answer, createClient } from './http.ts'
import { until } from './until.ts'

const RETRY_MS = 50

/** An event as `user.created 7`, with the ids of its records. */
const summary = (data: string): { id: number; request: string; text: string } => {
  const { id, type, user_id, group_id, request_id } = JSON.parse(data)
  return {
    id,
    request: request_id,
    text: [type, user_id, group_id].filter(part => part !== undefined).join(' '),
  }
}

type Fate = 'stored' | 'refused' | 'unknown'

/**
 * Starts writers that create, change and delete records and memberships.
 * @param urls the nodes, which the writers use in turns
 */
export function startFeedLoad(urls: readonly string[], writers: number) {
  /** The events that each request has if it is stored, in order. */
  const expected = new Map<string, { readonly texts: readonly string[]; readonly fate: Fate }>()
  const run = randomUUID().slice(0, 8)
  const clients = urls.map(url => createClient(url))
  let isOver = false
  let acknowledged = 0

  async function write(writer: number): Promise<void> {
    let requests = 0
    /** @param events returns the events of the response */
    async function ask(
      method: 'post' | 'patch' | 'delete',
      path: string,
      body: object,
      events: (answer: Answer) => string[],
    ) {
      const client = clients[(writer + requests) % clients.length]
      if (client === undefined) throw new Error('no node')
      const request = `${run}-${writer}.${++requests}`
      const headers = { 'request-id': request }
      const sending = method === 'delete' ? client.delete(path, headers) : client[method](path, body, headers)
      const answer = await sending.catch(() => undefined)
      const isUnavailable = answer === undefined || answer.status >= 500
      const fate = answer?.status === 200 ? 'stored' : isUnavailable ? 'unknown' : 'refused'
      const texts = answer?.status === 200 ? events(answer) : []
      expected.set(request, { texts, fate })
      if (fate === 'stored') acknowledged += texts.length
      if (isUnavailable) await delay(RETRY_MS)
      return fate === 'stored' ? answer : undefined
    }
    const user = (id: number | undefined, end: string) => [`user.${end} ${id}`]
    let own: number | undefined
    let group: number | undefined
    while (!isOver) {
      const name = `${run} ${writer} ${requests}`
      if (own === undefined)
        own = (
          await ask('post', '/v1/users', { first_name: 'Own', last_name: name }, ({ body }) =>
            user(body.id, 'created'),
          )
        )?.body.id
      else if (group === undefined)
        group = (await ask('post', '/v1/groups', { name }, ({ body }) => [`group.created ${body.id}`]))?.body
          .id
      else {
        const [id, team] = [own, group]
        for (let n = 0; n < 5; n++)
          await ask('patch', `/v1/users/${id}`, { first_name: name, last_name: `${requests}` }, () =>
            user(id, 'updated'),
          )
        const users = Array.from({ length: 10 }, (_, at) => ({ first_name: name, last_name: `b${at}` }))
        const batch = await ask('post', '/v1/users', { users }, ({ body }) =>
          (body.users ?? []).flatMap(({ id }) => user(id, 'created')),
        )
        const members = batch?.body.users?.map(({ id }) => ({ id })) ?? []
        if (members.length > 0)
          await ask('post', `/v1/groups/${team}/users`, { users: members }, () =>
            members.map(({ id }) => `membership.created ${id} ${team}`),
          )
        await ask('post', '/v1/users', { first_name: name, last_name: 'b0' }, ({ body }) =>
          user(body.id, 'created'),
        )
        const [first, second, third, ...others] = members
        if (first !== undefined)
          await ask('delete', `/v1/users/${first.id}`, {}, () => user(first.id, 'deleted'))
        const changes = others.map(({ id }) => ({ id, first_name: `${name} changed` }))
        if (changes.length > 0)
          await ask('patch', '/v1/users', { users: changes }, () =>
            changes.flatMap(({ id }) => user(id, 'updated')),
          )
        const removed = [second, ...others.slice(0, 3)].flatMap(one => one?.id ?? [])
        if (removed.length > 0)
          await ask('delete', `/v1/users?id[in]=${removed}`, {}, () =>
            removed.flatMap(id => user(id, 'deleted')),
          )
        if (third !== undefined)
          await ask('delete', `/v1/users/${third.id}/groups/${team}`, {}, () => [
            `membership.deleted ${third.id} ${team}`,
          ])
        if (requests % 3 === 0) {
          await ask('delete', `/v1/groups/${team}`, {}, () => [`group.deleted ${team}`])
          group = undefined
        }
      }
    }
  }
  const running = Promise.all(Array.from({ length: writers }, (_, writer) => write(writer)))

  return {
    acknowledged: () => acknowledged,
    async stop(): Promise<void> {
      isOver = true
      await running
      for (const client of clients) client.close()
    },
    /**
     * Waits until all readers have read everything. Call it after all writes.
     * @throws AssertionError if a change is not exactly once in the feed, or the readers have different events
     * @returns the number of events
     */
    async verify(readers: readonly FeedReader[]): Promise<number> {
      const client = createClient(urls[0] ?? '')
      const headers = { 'request-id': `${run}.last` }
      const { status } = await client.post('/v1/users', { first_name: run, last_name: 'last' }, headers)
      assert.equal(status, 200)
      client.close()
      const hasLast = ({ data }: FeedReader) => data.at(-1)?.includes(`"${run}.last"`) === true
      const describe = () => readers.map(({ data }) => data.at(-1)).join('\n')
      await until(() => readers.every(hasLast), { describe })
      const [first] = readers
      for (const { data } of readers) assert.deepEqual(data, first?.data)
      const events = (first?.data ?? []).map(summary)
      for (const [at, { id }] of events.entries())
        assert.equal(id, (events[0]?.id ?? 0) + at, 'ids are not consecutive')
      const found = new Map<string, string[]>()
      for (const { request, text } of events) found.set(request, [...(found.get(request) ?? []), text])
      for (const [request, { texts, fate }] of expected) {
        const got = found.get(request) ?? []
        if (fate === 'stored') assert.deepEqual(got, texts, request)
        if (fate === 'refused') assert.deepEqual(got, [], request)
        assert.equal(new Set(got).size, got.length, `${request} twice: ${got}`)
      }
      verifyOrder(events, run)
      await verifyUnknown()
      return events.length

      /** Asserts that what the events of requests without a response say is stored. */
      async function verifyUnknown(): Promise<void> {
        const deleted = new Set(events.flatMap(({ text }) => text.match(/^\w+\.deleted \d+/)?.[0] ?? []))
        const client = createClient(urls[0] ?? '')
        for (const { request, text } of events) {
          const [type = '', id] = text.split(' ')
          const [kind, end] = type.split('.')
          if (expected.get(request)?.fate !== 'unknown' || kind === 'membership') continue
          if (end === 'created' && deleted.has(`${kind}.deleted ${id}`)) continue
          const { status } = await client.get(`/v1/${kind}s/${id}`)
          if (end !== 'updated') assert.equal(status, end === 'created' ? 200 : 404, `${text} of ${request}`)
        }
        client.close()
      }
    },
  }
}

/** Memberships are between the creation and the end of their records, and each record is created first and deleted last. */
function verifyOrder(events: readonly ReturnType<typeof summary>[], run: string): void {
  const states = new Map<string, 'created' | 'deleted'>()
  const patches = new Map<string, number>()
  for (const { text, request } of events) {
    const [type = '', ...ids] = text.split(' ')
    const [kind = '', end = ''] = type.split('.')
    if (kind === 'membership') {
      assert.notEqual(states.get(`user ${ids[0]}`), 'deleted', text)
      assert.notEqual(states.get(`group ${ids[1]}`), 'deleted', text)
      if (end === 'created' && request.startsWith(`${run}-`))
        assert.equal(states.get(`user ${ids[0]}`), 'created', text)
      continue
    }
    const record = `${kind} ${ids[0]}`
    // Records from before the first event have no state.
    if (end === 'created') assert.equal(states.get(record), undefined, text)
    else assert.notEqual(states.get(record), 'deleted', text)
    if (end !== 'updated') states.set(record, end === 'created' ? 'created' : 'deleted')
    if (!request.startsWith(`${run}-`)) continue
    // One writer changes a user, one request after the other.
    const number = Number(request.split('.')[1])
    assert.ok(number > (patches.get(record) ?? -1), `${text} of ${request}`)
    patches.set(record, number)
  }
}

export type FeedReader = ReturnType<typeof startFeedReader>

/** Reads the feed until `stop`, through a stream or through pages, whatever happens to the service. */
export function startFeedReader(url: string, kind: 'stream' | 'pages', start: number) {
  const data: string[] = []
  let position = `${start}`
  let isOver = false
  let stream: EventStream | undefined
  const client = createClient(url)

  async function follow(): Promise<void> {
    stream = await openEventStream(`${url}/v1/changes?after=${position}`)
    const { until, events } = stream
    for (let read = 0; ; read = events().length) {
      await until(() => events().length > read)
      for (const { id = '', data: text = '' } of events().slice(read)) {
        data.push(text)
        position = id
      }
    }
  }
  async function page(): Promise<void> {
    const answer = await client.get(`/v1/changes?after=${position}&wait=2&records_per_page=50`)
    assert.ok(answer.status === 200 || answer.status === 503, answer.text)
    if (answer.status !== 200) return void (await delay(RETRY_MS))
    const changes: { id: number }[] = JSON.parse(answer.text).changes
    data.push(...changes.map(change => JSON.stringify(change)))
    position = String(changes.at(-1)?.id ?? position)
  }
  const running = (async () => {
    while (!isOver)
      await (kind === 'stream' ? follow() : page()).catch(async (error: Error) => {
        if (error instanceof assert.AssertionError || / 410 /.test(error.message)) throw error
        await delay(RETRY_MS)
      })
  })()

  return {
    data,
    async stop(): Promise<void> {
      isOver = true
      stream?.close()
      // A page can be waiting for an event.
      client.close()
      await running
    },
  }
}
