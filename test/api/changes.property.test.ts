// The change feed against a model: random writes through four workers, and random readers.
import { setTimeout as delay } from 'node:timers/promises'
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { openEventStream } from '../support/event-stream.ts'
import { executeOn } from '../support/execute.ts'
import {
  type Event,
  type Filter,
  type Part,
  replay,
  verifyParts,
  verifyWrites,
} from '../support/feed-model.ts'
import {
  below,
  chance,
  createUser,
  groups,
  pick,
  some,
  users,
  write,
  writes,
} from '../support/feed-writes.ts'
import type { Client } from '../support/http.ts'

const WRITES = 400
const WRITERS = 8
const READERS = 8
const { service, api, openClient, close } = await openApi({ workers: 4 })
test.after.always(close)

const types = ['user', 'group', 'membership']
  .flatMap(kind => ['created', 'updated', 'deleted'].map(end => `${kind}.${end}`))
  .filter(type => type !== 'membership.updated')

/** Sends a request on a connection of its own, which any worker can accept. */
async function openOnce<T>(act: (client: Client) => Promise<T>): Promise<T> {
  const client = openClient()
  return act(client).finally(client.close)
}

const parts: Part[] = []
let isOver = false

function randomFilter(): { filter: Filter; query: string } {
  const filter: Filter = {
    types: chance(0.5) ? [] : [...new Set(some(types, 3))],
    user_id: chance(0.2) ? pick(users) : undefined,
    group_id: chance(0.2) ? pick(groups) : undefined,
  }
  const { types: names, user_id, group_id } = filter
  const pairs = [
    ...(names.length === 0 ? [] : chance(0.5) ? [`type=${names}`] : names.map(name => `type=${name}`)),
    ...(user_id === undefined ? [] : [`user_id=${user_id}`]),
    ...(group_id === undefined ? [] : [`group_id=${group_id}`]),
  ]
  return { filter, query: pairs.map(pair => `&${pair}`).join('') }
}

/** The highest position that an answer has named. */
let known = 0

async function readPages(): Promise<void> {
  const { filter, query } = randomFilter()
  const fromEnd = chance(0.2)
  const wait = chance(0.5) ? `&wait=${1 + below(3)}` : ''
  const limit = chance(0.3) ? 1000 : 1 + below(8)
  let after = fromEnd ? known : below(known + 1)
  let path = `/v1/changes?after=${after}&records_per_page=${limit}${query}${wait}`
  if (fromEnd) {
    const least = known
    const { body } = await openOnce(client => client.get('/v1/changes?after=latest'))
    after = Number(/after=(\d+)/.exec(body.meta.links?.next ?? '')?.[1])
    if (!(after >= least)) throw new Error(`latest is ${after}, but ${least} was read`)
    path = path.replace(/after=\d+/, `after=${after}`)
  }
  for (let n = 0; n < 1 + below(20) && !isOver; n++) {
    const answer = await openOnce(client => client.get(path))
    if (answer.status !== 200) throw new Error(`${path}: ${answer.text}`)
    const next = answer.body.meta.links?.next ?? ''
    const end = Number(/[?&]after=(\d+)/.exec(next)?.[1])
    const texts: string[] = JSON.parse(answer.text).changes.map((change: object) => JSON.stringify(change))
    if (texts.length > limit) throw new Error(`${path}: ${texts.length} events`)
    parts.push({ filter, after, end, texts })
    known = Math.max(known, end)
    after = end
    path = next
  }
}

async function readStream(): Promise<void> {
  const { filter, query } = randomFilter()
  const after = below(known + 1)
  const texts: string[] = []
  let end = after
  for (let n = 0; n < 1 + below(5) && !isOver; n++) {
    const position = n === 0 && chance(0.5) ? `after=${after}` : 'after=latest'
    const headers = position === 'after=latest' ? { 'last-event-id': `${end}` } : {}
    const stream = await openEventStream(`${service.url}/v1/changes?${position}${query}`, headers)
    await delay(below(300))
    chance(0.5) ? stream.close() : stream.closeSilently()
    for (const { id = '', data } of stream.blocks()) {
      if (data !== undefined) texts.push(data)
      if (id !== '') end = Number(id)
    }
  }
  known = Math.max(known, end)
  parts.push({ filter, after, end, texts })
}

test('feed: every reader gets the selected events in one order, and they explain what is stored', async t => {
  const reading = Array.from({ length: READERS }, async (_, at) => {
    while (!isOver) await (at % 2 === 0 ? readPages() : readStream())
  })
  let sent = 0
  const writing = Array.from({ length: WRITERS }, async () => {
    const client = openClient()
    while (sent++ < WRITES) await write(client)
  })
  await Promise.all(writing)
  const last = await createUser(api)
  const feed: Event[] = []
  while (feed.at(-1)?.request_id !== last.headers['request-id']) {
    const answer = await api.get(`/v1/changes?after=${feed.at(-1)?.id ?? 0}&records_per_page=1000&wait=10`)
    for (const change of JSON.parse(answer.text).changes)
      feed.push({ ...change, text: JSON.stringify(change) })
  }
  isOver = true
  await Promise.all(reading)
  verifyParts(feed, parts)
  verifyWrites(feed, writes)
  const rows = await executeOn(
    service.database,
    `SELECT CONCAT('user ', id) AS item FROM users UNION ALL SELECT CONCAT('group ', id) FROM \`groups\`
      UNION ALL SELECT CONCAT('membership ', user_id, ' ', group_id) FROM memberships`,
  )
  const stored = Array.isArray(rows) ? rows.map(({ item }) => String(item)) : []
  t.deepEqual([...replay(feed)].sort(), stored.sort())
  const withEvents = parts.filter(({ texts }) => texts.length > 0).length
  t.true(withEvents > 0)
  t.log(
    `${writes.size} writes, ${feed.length} events, ${withEvents} of ${parts.length} parts of readers with events`,
  )
})
