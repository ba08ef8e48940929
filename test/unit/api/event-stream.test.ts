// The server-sent events of the change feed, over a connection whose client reads only what the test lets it read.
import { once } from 'node:events'
import http from 'node:http'
import { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import test, { type ExecutionContext } from 'ava'
import Koa from 'koa'
import { createEventStream } from '../../../src/api/changes/event-stream.ts'
import type { FeedEvent } from '../../../src/database/feed/events.ts'
import type { Feed } from '../../../src/database/feed/feed.ts'
import { collectGarbage } from '../../support/garbage.ts'

/** More than the service writes before it waits for the client. */
const TEXT_BYTES = 100_000
const PORTIONS = 50

/** A feed with one large event in each portion. */
function createLargeFeed() {
  let reads = 0
  const given: WeakRef<FeedEvent>[] = []
  const event = (id: number) => {
    const created = { id, type: 'user.created', ids: {}, text: 'x'.repeat(TEXT_BYTES) }
    given.push(new WeakRef(created))
    return created
  }
  const feed: Feed = {
    async read(after = 0) {
      reads++
      await turn()
      const events = after < PORTIONS ? [event(after + 1)] : []
      return { floor: 0, head: PORTIONS, events }
    },
    latest: async () => PORTIONS,
    async changed(_after, signal) {
      if (!signal.aborted) await once(signal, 'abort')
    },
    readers: () => 0,
  }
  /** The events that are still in memory. */
  async function kept(): Promise<number> {
    await turn()
    collectGarbage()
    return given.filter(event => event.deref() !== undefined).length
  }
  return { feed, reads: () => reads, kept }
}

/** A connection on which a request has arrived. Its client takes nothing until `takeAll`. */
function createUnreadConnection() {
  const taken: Buffer[] = []
  let take: (() => void) | undefined
  let isTaking = false
  const socket = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      taken.push(chunk)
      take = done
      if (isTaking) done()
    },
  })
  socket.push('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  return {
    socket,
    takeAll(): void {
      isTaking = true
      take?.()
    },
    hasEnded: () => Buffer.concat(taken).toString().endsWith('\r\n0\r\n\r\n'),
    ids: () =>
      [
        ...Buffer.concat(taken)
          .toString()
          .matchAll(/^id: (\d+)\nevent/gm),
      ].map(([, id]) => Number(id)),
  }
}

interface StreamOptions {
  readonly assertAllowed?: () => Promise<void>
  readonly drainDelayOver?: AbortSignal
}

/** Opens a stream from the beginning of a feed. It is closed after the test. */
function openStream(
  t: ExecutionContext,
  feed: Feed,
  { assertAllowed = async () => {}, drainDelayOver }: StreamOptions = {},
) {
  const stream = createEventStream(feed, assertAllowed)
  const query = { after: 0, recordsPerPage: 1, waitSeconds: 0, selects: undefined, others: '' }
  const app = new Koa().use(ctx => {
    Object.assign(ctx.res, { drainDelayOver })
    return stream(ctx, query, 0)
  })
  const server = http.createServer(app.callback())
  const connection = createUnreadConnection()
  t.teardown(() => connection.socket.destroy())
  server.emit('connection', connection.socket)
  return connection
}

const turns = async (count: number): Promise<void> => {
  for (let n = 0; n < count; n++) await turn()
}

/** Replaces the intervals of this process during a test. Returns the tasks of those that are not cleared. */
function takeIntervals(t: ExecutionContext): () => (() => void)[] {
  const { setInterval, clearInterval } = globalThis
  t.teardown(() => Object.assign(globalThis, { setInterval, clearInterval }))
  const tasks = new Map<object, () => void>()
  Object.assign(globalThis, {
    setInterval(task: () => void) {
      const timer = {}
      tasks.set(timer, task)
      return timer
    },
    clearInterval: (timer: object) => tasks.delete(timer),
  })
  return () => [...tasks.values()]
}

test('stream: what a client has not read yet is one portion of the feed', async t => {
  const { feed, reads } = createLargeFeed()
  const { takeAll, ids } = openStream(t, feed)
  // A stream that does not wait for its client reads one portion in each turn.
  await turns(4 * PORTIONS)
  t.is(reads(), 1)
  takeAll()
  while (ids().length < PORTIONS) await turn()
  t.deepEqual(
    ids(),
    Array.from({ length: PORTIONS }, (_, at) => at + 1),
  )
})

test('stream: no event that has been written stays in memory, neither of a slow client nor of one that waits', async t => {
  const { feed, reads, kept } = createLargeFeed()
  const { takeAll, ids } = openStream(t, feed)
  while (reads() === 0) await turn()
  await turns(10)
  t.is(await kept(), 0)
  takeAll()
  while (ids().length < PORTIONS) await turn()
  t.is(await kept(), 0)
})

test('stream: the end of the drain delay ends it', async t => {
  const delay = new AbortController()
  const { takeAll, ids, hasEnded } = openStream(t, createLargeFeed().feed, { drainDelayOver: delay.signal })
  takeAll()
  while (ids().length < PORTIONS) await turn()
  t.false(hasEnded())
  delay.abort()
  await turns(10)
  t.true(hasEnded())
})

test('stream: one that begins after the drain delay ends after its first events', async t => {
  const { takeAll, ids, hasEnded } = openStream(t, createLargeFeed().feed, {
    drainDelayOver: AbortSignal.abort(),
  })
  takeAll()
  await turns(4 * PORTIONS)
  t.true(hasEnded())
  t.deepEqual(ids(), [1])
})

test.serial('stream: it ends when its request is not allowed any more, and leaves no timer', async t => {
  const tasks = takeIntervals(t)
  let isAllowed = true
  const assertAllowed = async () => {
    if (!isAllowed) throw new Error('the token has expired')
  }
  const { takeAll, ids, hasEnded } = openStream(t, createLargeFeed().feed, { assertAllowed })
  takeAll()
  while (ids().length < PORTIONS) await turn()
  for (const task of tasks()) task()
  await turns(10)
  t.false(hasEnded())
  isAllowed = false
  for (const task of tasks()) task()
  await turns(10)
  t.true(hasEnded())
  t.deepEqual(tasks(), [])
})
