// The change feed in a real database: events have consecutive ids in the order of the changes of each record, whatever
// interrupts their numbering, and positions expire.
import { getEventListeners } from 'node:events'
import test, { type ExecutionContext } from 'ava'
import { pino } from 'pino'
import { loadConfig } from '../../src/config/config.ts'
import { unavailable } from '../../src/core/api-error.ts'
import { createLog } from '../../src/core/log.ts'
import { createDatabase, type Database } from '../../src/database/database.ts'
import { appendEvents } from '../../src/database/derived-rows.ts'
import { createChangeFeed } from '../../src/database/feed/change-feed.ts'
import { createFeed } from '../../src/database/feed/feed.ts'
import { createNumbering } from '../../src/database/feed/numbering.ts'
import { type Portion, readHead, readPortion } from '../../src/database/feed/portion.ts'
import { closeGap, expirePositions, noteGap, removeExpired } from '../../src/database/feed/retention.ts'
import { createDelete } from '../../src/database/writing/delete.ts'
import { groups } from '../../src/model/groups.ts'
import { resources } from '../../src/model/index.ts'
import { users } from '../../src/model/users.ts'
import { executeOn } from '../support/execute.ts'
import { createGate } from '../support/gate.ts'
import { openDatabase } from '../support/open-database.ts'
import {
  countUp,
  createSequencesSql,
  expectInOrder,
  insertSequences,
  readAll,
  upTo,
} from '../support/sequences.ts'
import { createDatabase as createTestDatabase } from '../support/service.ts'
import { until } from '../support/until.ts'
import { createMemberWriters, createWriters } from '../support/writers.ts'

const config = await loadConfig()

const url = await createTestDatabase()
const open = () => openDatabase({ url })
/** As many processes use the same database. */
const databases = [open(), open(), open(), open()] as const
const [database] = databases
const numberings = databases.map(({ numbering }) => numbering)
const number = async () => database.numbering.number()
test.after.always(() => Promise.all(databases.map(one => one.close())))

test.beforeEach(() =>
  executeOn(
    url,
    'DELETE FROM changes',
    'UPDATE change_head SET last_id = 0, floor = 0, is_complete = TRUE WHERE id = 1',
  ),
)

const origin = { by: 'test', requestId: 'r' }
const created = (id: number) => ({
  type: 'created' as const,
  resource: users,
  id,
  before: undefined,
  after: 1,
  origin,
})
const changesOf = (...ids: number[]) => ids.map(created)

/** Writes events in one transaction. They have no numbers yet. */
const append = (...ids: number[]) => database.transaction(trx => appendEvents(trx, changesOf(...ids)))
async function appendNumbered(...ids: number[]): Promise<void> {
  await append(...ids)
  await number()
}

const idsIn = (portion: Portion | undefined) => portion?.events.map(({ id }) => id)

/** Reads the feed in small portions while `writing` goes on. @returns the ids of all events, in the order of the reads */
async function readUntilEnd(writing: Promise<unknown>): Promise<number[]> {
  let isWriting = true
  const written = writing.finally(() => {
    isWriting = false
  })
  const seen: number[] = []
  for (;;) {
    const wasWriting = isWriting
    const { events } = await readPortion(database, seen.at(-1) ?? 0, 7)
    seen.push(...events.map(({ id }) => id))
    if (events.length > 0 || wasWriting) continue
    await written
    return seen
  }
}

test.serial(
  'numbering: 4 processes write and number at once, and each record keeps the order of its changes',
  async t => {
    await executeOn(url, createSequencesSql)
    await insertSequences(database, 5)
    const writing = Promise.all(
      databases.map(async (one, at) => {
        for (let n = 0; n < 120; n++) {
          const first = 1 + ((n + at) % 5)
          await countUp(one, n % 3 === 0 ? [first, 1 + (first % 5)].sort() : [first], `${at}`)
          if (n % 4 === at) await one.numbering.number()
        }
        await one.numbering.number()
      }),
    )
    const seen = await readUntilEnd(writing)
    const events = await readAll(database)
    const ids = events.map(({ id }) => id)
    t.is(ids.length, 4 * (120 + 40))
    t.deepEqual(ids, upTo(ids.length))
    t.deepEqual(seen, ids, 'a reader meanwhile has missed no event')
    expectInOrder(t, events)
    t.deepEqual(await database.query('SELECT * FROM change_queue', []), [])
  },
)

test.serial(
  'numbering: an event of a transaction that is not committed yet gets its number later, and no id is left out',
  async t => {
    await database.transaction(async open => {
      await appendEvents(open, changesOf(1))
      await appendNumbered(2, 3)
    })
    await database
      .transaction(async trx => {
        await appendEvents(trx, changesOf(4))
        throw new RangeError('rolled back')
      })
      .catch(() => {})
    await number()
    const events = await readAll(database)
    t.deepEqual(
      events.map(({ id, ids }) => [id, ids.user_id]),
      [
        [1, 2],
        [2, 3],
        [3, 1],
      ],
    )
  },
)

test.serial('pages: a page begins and ends within the events of one transaction', async t => {
  const ids = upTo(2500)
  await appendNumbered(...ids)
  for (const [after, limit] of [
    [0, 1],
    [1, 1000],
    [999, 2],
    [1999, 501],
    [1500, 1000],
    [2499, 10],
  ] as const) {
    const { head, events } = await readPortion(database, after, limit)
    t.is(head, 2500)
    t.deepEqual(
      events.map(event => [event.id, event.ids.user_id]),
      ids.slice(after, after + limit).map(id => [id, id]),
    )
  }
  const [event] = (await readPortion(database, 41, 1)).events
  const { at, ...rest } = JSON.parse(event?.text ?? '')
  t.deepEqual(rest, { id: 42, type: 'user.created', user_id: 42, by: 'test', request_id: 'r' })
  t.true(Math.abs(Date.parse(at) - Date.now()) < 60_000, at)
  t.regex(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
})

test.serial('events: each has the caller of its own request, also of requests with the same id', async t => {
  const changes = ['one', 'one', 'two', null].map(by => ({
    ...created(1),
    origin: { by, requestId: 'same' },
  }))
  await database.transaction(trx => appendEvents(trx, changes))
  await number()
  t.deepEqual(
    (await readAll(database)).map(({ text }) => JSON.parse(text).by),
    ['one', 'one', 'two', null],
  )
})

test.serial('numbering: any number of rows is numbered at once', async t => {
  const rows = Array.from({ length: 501 }, () => ['2026-01-01 00:00:00', 1, '[]'])
  await database.transaction(trx =>
    trx.execute('INSERT INTO change_queue (at, amount, events) VALUES ?', [rows]),
  )
  await number()
  t.deepEqual(await readHead(database), { floor: 0, head: 501 })
})

test.serial('retention: expired events go, and only positions before them are invalid', async t => {
  for (const id of [1, 2, 3]) await append(id, id)
  await number()
  await database.transaction(trx =>
    trx.execute('UPDATE changes SET at = at - INTERVAL 100 SECOND WHERE last_id <= 4', []),
  )
  const feed = createFeed(database)
  await removeExpired(database, 200)
  t.is((await feed.read(undefined, 10))?.events.length, 6)
  await removeExpired(database, 50)
  t.deepEqual(await readHead(database), { floor: 4, head: 6 })
  t.is(await feed.read(3, 10), undefined)
  t.deepEqual(idsIn(await feed.read(4, 10)), [5, 6])
  t.deepEqual(idsIn(await feed.read(undefined, 10)), [5, 6])
  t.deepEqual(await feed.read(6, 10), { floor: 4, head: 6, events: [] })
  t.is(await feed.read(7, 10), undefined)
  t.is((await database.query('SELECT * FROM changes', [])).length, 1)
})

test.serial('retention: a process that is late makes no position valid again', async t => {
  for (const id of [1, 2, 3]) await append(id)
  await number()
  await executeOn(url, 'UPDATE changes SET at = at - INTERVAL 100 * (3 - last_id) SECOND')
  const late: Database = {
    ...database,
    async transaction(act) {
      await removeExpired(databases[1], 50)
      return database.transaction(act)
    },
  }
  await removeExpired(late, 150)
  t.deepEqual(await readHead(database), { floor: 2, head: 3 })
})

test.serial('retention: any number of expired events goes at once', async t => {
  const count = 2100
  const rows = Array.from({ length: count }, (_, at) => [at + 1, '2026-01-01 00:00:00', 1, '[]'])
  await database.transaction(trx =>
    trx.execute('INSERT INTO changes (last_id, at, amount, events) VALUES ?', [rows]),
  )
  await executeOn(url, `UPDATE change_head SET last_id = ${count}`)
  await removeExpired(database, 50)
  t.deepEqual(await readHead(database), { floor: count, head: count })
  t.deepEqual(await database.query('SELECT last_id FROM changes', []), [])
})

test.serial(
  'retention: after expirePositions, every earlier position is invalid, and ids go on from a greater one',
  async t => {
    await appendNumbered(1, 2)
    const feed = createFeed(database)
    // Positions of another history of this database, which a backup from before it was restored into.
    const given = [0, 1, 2, 3, 1_000_000_000]
    const floor = await expirePositions(database)
    for (const position of given) t.is(await feed.read(position, 1), undefined)
    t.deepEqual(await feed.read(floor, 1), { floor, head: floor, events: [] })
    await appendNumbered(3, 4)
    t.deepEqual(idsIn(await feed.read(undefined, 9)), [floor + 1, floor + 2])
    t.true(Number.isSafeInteger((1000 * floor) / 1000) && floor > 2 ** 50)
    t.true((await expirePositions(database)) > floor + 2)
  },
)

test.serial('retention: positions from before a time without the feed are invalid', async t => {
  await appendNumbered(1, 2)
  const feed = createFeed(database)
  t.is(await closeGap(database, undefined), undefined)
  t.is((await feed.read(2, 1))?.head, 2)
  await noteGap(database)
  t.is(await closeGap(database, undefined), 3)
  t.is(await feed.read(2, 1), undefined)
  t.deepEqual(await feed.read(undefined, 1), { floor: 3, head: 3, events: [] })
})

test.serial(
  'retention: positions from after a gap are valid for good when no process notes it any more',
  async t => {
    const feed = createFeed(database)
    await noteGap(database)
    const closing = await closeGap(database, undefined)
    // Another worker has not seen how long the gap has been closing.
    t.is(await closeGap(database, undefined), closing)
    t.truthy(await feed.read(closing ?? 0, 1))
    await noteGap(database)
    const again = await closeGap(database, closing)
    t.is(await feed.read(closing ?? 0, 1), undefined)
    t.is(await closeGap(database, closing), again)
    t.is(await closeGap(database, again), undefined)
    t.is(await feed.read(again ?? 0, 1), undefined)
    const { last_id } = (await database.knex('change_head').first()) ?? {}
    t.is(await closeGap(database, again), undefined)
    t.truthy(await feed.read(Number(last_id), 1))
  },
)

test.serial(
  'feed: readers that wait get each event once, also those that come later and those that are behind',
  async t => {
    const feed = createFeed(database)
    const total = 300
    const { signal } = new AbortController()
    const read = async (): Promise<number[]> => {
      const ids: number[] = []
      while (ids.length < total) {
        const portion = await feed.read(ids.length, 50)
        ids.push(...(portion?.events ?? []).map(({ id }) => id))
        if (ids.length < total && portion?.head === ids.length) await feed.changed(ids.length, signal)
      }
      return ids
    }
    const readers = [read(), read(), read()]
    for (let n = 1; n <= total / 3; n++) {
      const database = databases[n % 4]
      await database?.transaction(trx => appendEvents(trx, changesOf(n, n, n)))
      await numberings[n % 4]?.number()
      if (n === 50) readers.push(read())
    }
    for (const ids of await Promise.all(readers)) t.deepEqual(ids, upTo(total))
  },
)

test.serial(
  'feed: a reader that waits is woken when its position expires, and when it is told to end',
  async t => {
    const feed = createFeed(database)
    const { signal } = new AbortController()
    const waiting = feed.changed(0, signal)
    await expirePositions(database)
    await waiting
    // A stream waits again and again with one signal.
    t.deepEqual(getEventListeners(signal, 'abort'), [])
    t.is(await feed.read(0, 1), undefined)
    const controller = new AbortController()
    const { head } = await readHead(database)
    const ended = feed.changed(head, controller.signal)
    t.is(feed.readers(), 1)
    controller.abort()
    await ended
    t.is(feed.readers(), 0)
  },
)

test.serial('feed: reads that look for selected events do not hold up others', async t => {
  const silence = createGate()
  const feed = createFeed({
    ...database,
    async query(sql, values) {
      if (Number(values?.[2]) >= 2000) await silence.opened
      return database.query(sql, values)
    },
  })
  const large = [1, 2, 3, 4].map(() => feed.read(0, 10_000))
  t.deepEqual((await feed.read(0, 10))?.events, [])
  silence.open()
  await Promise.all(large)
})

test.serial(
  'feed: a read near the end that looks for selected events does not wait for those that are behind',
  async t => {
    const { head } = await readHead(database)
    for (const size of [1000, 1000, 400]) await append(...Array(size).keys())
    await number()
    const silence = createGate()
    const feed = createFeed({
      ...database,
      async query(sql, values) {
        if (Number(values?.[0]) === head + 1000) await silence.opened
        return database.query(sql, values)
      },
    })
    const behind = [1, 2, 3].map(() => feed.read(head, 10_000))
    t.is((await feed.read(head + 2390, 10_000))?.events.length, 10)
    silence.open()
    for (const portion of await Promise.all(behind)) t.is(portion?.events.length, 2400)
  },
)

test.serial('feed: a large read is made of small ones, so that others are served in between', async t => {
  const { head } = await readHead(database)
  for (const size of [1000, 1, 700, 1000, 300]) await append(...Array(size).keys())
  await number()
  const limits: number[] = []
  const feed = createFeed({
    ...database,
    query(sql, values) {
      limits.push(Number(values?.[4]))
      return database.query(sql, values)
    },
  })
  const idsOf = async (after: number, limit: number) =>
    (await feed.read(after, limit))?.events.map(({ id }) => id - head)
  const range = (first: number, last: number) =>
    Array.from({ length: last - first + 1 }, (_, index) => first + index)
  t.deepEqual(await idsOf(head, 10_000), range(1, 3001))
  t.deepEqual(await idsOf(head + 300, 1700), range(301, 2000))
  t.deepEqual(await idsOf(head + 1, 3000), range(2, 3001))
  t.deepEqual(limits, [1000, 1000, 1000, 1000, 1000, 700, 1000, 1000, 1000])
})

test.serial('feed: a read whose connection is silent does not hold up readers that wait', async t => {
  await appendNumbered(1, 2, 3, 4, 5)
  await executeOn(url, 'UPDATE change_head SET floor = 3')
  let reads = 0
  const silence = createGate()
  const feed = createFeed({
    ...database,
    async query(sql, values) {
      const isSilent = ++reads === 2
      if (isSilent) await appendNumbered(6, 7)
      const rows = await database.query(sql, values)
      if (isSilent) await silence.opened
      return rows
    },
  })
  const { signal } = new AbortController()
  // What the feed keeps in memory begins at the end, because position 0 has expired.
  await feed.changed(0, signal)
  await feed.changed(5, signal)
  // The silent read has found the same events as the one after it, and does not add them to the memory again.
  silence.open()
  await new Promise(setImmediate)
  t.deepEqual(idsIn(await feed.read(3, 10)), [4, 5, 6, 7])
})

test.serial(
  'events: groups that are deleted together take their members along, also from a second portion',
  async t => {
    const recording = openDatabase({ url }, { recordsEvents: true })
    t.teardown(() => recording.close())
    const userWriters = createWriters(recording, users)
    const groupWriters = createWriters(recording, groups)
    const memberships = createMemberWriters(recording)
    const people = await userWriters.insertMany(['a', 'b', 'c'].map(first_name => ({ first_name })))
    const created = await groupWriters.insertMany(['one', 'two'].map(name => ({ name })))
    const ids = created.map(row => row?.id ?? 0)
    for (const person of people) await memberships.add(person?.id ?? 0, ids)
    await recording.numbering.number()
    const { head } = await readHead(recording)
    await createDelete(recording, groups, resources, 4)({ origin, ids })
    await recording.numbering.number()
    const { events } = await readPortion(recording, head, 100)
    t.deepEqual(
      events.map(({ type, ids }) => [type, ids]),
      ids.map(group_id => ['group.deleted', { group_id }]),
    )
  },
)

test.serial('numbering: a write is followed by the numbering of its events', async t => {
  // Nothing else numbers events here: a worker would number those that are left each second.
  const recording = openDatabase({ url }, { recordsEvents: true })
  t.teardown(() => recording.close())
  await createWriters(recording, users).insertOne({ first_name: 'Numbered' })
  await until(async () => (await readHead(recording)).head === 1)
  t.deepEqual(await recording.query('SELECT * FROM change_queue', []), [])
})

/**
 * Opens a feed. Its `read` repeats a read that finds nothing, because a reader does not wait for a numbering that takes long: as long
 * as the numberings that a read has requested have not ended, it may find nothing.
 */
function openSlowFeed(t: ExecutionContext) {
  let running = 0
  const numbering = {
    ...database.numbering,
    async requestForReader() {
      running++
      await database.numbering.requestForReader()
      running--
    },
  }
  const feed = createFeed({ ...database, numbering })
  const read = (after: number, isFinal = false) =>
    until(async () => {
      const events = (await feed.read(after, 9, isFinal))?.events ?? []
      t.true(events.length > 0 || running > 0)
      return events.length > 0 && events
    })
  return { feed, read }
}

test.serial('numbering: events without numbers get them when readers look', async t => {
  const { feed, read } = openSlowFeed(t)
  await append(1)
  t.is((await read(0)).length, 1)
  await append(2)
  await until(async () => (await feed.latest()) === 2)
  const waiting = feed.changed(2, new AbortController().signal)
  await append(3)
  await waiting
  t.is((await feed.read(2, 9))?.events.length, 1)
})

test.serial(
  'feed: a reader that does not go on to wait gets all that is committed, beside others that wait',
  async t => {
    const { feed, read } = openSlowFeed(t)
    const controller = new AbortController()
    const selected = feed.changed(1000, controller.signal)
    for (let id = 1; id <= 20; id++) {
      await append(id)
      t.is((await read(id - 1, true)).length, 1)
    }
    controller.abort()
    await selected
  },
)

test.serial('numbering: readers at the end do not wait for one that takes long', async t => {
  const feed = createFeed(database)
  await database.transaction(async trx => {
    await trx.query('SELECT last_id FROM change_head WHERE id = 1 FOR UPDATE', [])
    // After the lock: a numbering can start as soon as the event is committed.
    await database.transaction(other => appendEvents(other, changesOf(1)))
    t.deepEqual((await feed.read(0, 9))?.events, [])
    t.is(await feed.latest(), 0)
  })
  await until(async () => (await feed.read(0, 9))?.events.length === 1)
})

test.serial('numbering: the reason why it fails is logged once', async t => {
  const lines: unknown[] = []
  const log = pino({ base: null }, { write: (line: string) => lines.push(JSON.parse(line).reason) })
  const outcomes = ['fails', 'fails', 'ends', 'fails', 'fails', 'is denied', 'is away']
  const causes: Readonly<Record<string, string>> = {
    'is denied': 'ER_TABLEACCESS_DENIED_ERROR',
    'is away': 'ECONNRESET',
  }
  let tries = 0
  const failing = createNumbering(async act => {
    const outcome = outcomes[tries++] ?? ''
    if (outcome === 'ends') return 0 as Awaited<ReturnType<typeof act>>
    const code = causes[outcome]
    throw code === undefined ? new Error('fails') : unavailable(Object.assign(new Error(outcome), { code }))
  }, log)
  for (const [index] of outcomes.entries()) {
    failing.requestAfterWrite()
    await until(() => tries > index)
  }
  // Once more after a success. An outage has a line of its own.
  t.deepEqual(lines, ['fails', 'fails', 'is denied'])
})

test.serial('numbering: one that cannot go on because its database is closed logs nothing', async t => {
  // The readers of earlier tests would number the events of the other database.
  const settings = { ...config.database, url: await createTestDatabase() }
  const lines: unknown[] = []
  const log = pino({ base: null }, { write: (line: string) => lines.push(JSON.parse(line)) })
  const [holder, closing] = [createDatabase(settings, log), createDatabase(settings, log)]
  t.teardown(() => holder.close())
  const events = Array.from({ length: 600 }, () => ['2026-01-01 00:00:00', 1, '[]'])
  let ended: Promise<unknown> = Promise.resolve()
  await holder.transaction(async trx => {
    await trx.query('SELECT last_id FROM change_head WHERE id = 1 FOR UPDATE', [])
    await holder.transaction(other =>
      other.execute('INSERT INTO change_queue (at, amount, events) VALUES ?', [events]),
    )
    const numbered = closing.numbering.requestForReader()
    await until(() => closing.pool().used === 1)
    // The numbering waits for the lock. After it has numbered 500 events, it gets no connection for the others.
    ended = Promise.all([numbered, closing.close()])
  })
  await ended
  t.not((await holder.query('SELECT id FROM change_queue', [])).length, 0)
  t.deepEqual(lines, [])
})

test.serial(
  'numbering: events that a killed process has left get their numbers without a reader',
  async t => {
    // The readers of earlier tests would number the events of the other database.
    const left = openDatabase({ url: await createTestDatabase() }, { level: 'silent' })
    t.teardown(() => left.close())
    const { start, report } = createChangeFeed(left, 3600, createLog('silent', 'test'))
    await start()
    await left.transaction(trx => appendEvents(trx, changesOf(1, 2)))
    await until(() => report()?.waiting === 2)
    await until(() => report()?.waiting === 0)
    t.is((await readHead(left)).head, 2)
  },
)
