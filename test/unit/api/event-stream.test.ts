// The server-sent events of the change feed, over a connection whose client reads only what the test lets it read.
import { once } from 'node:events'
import http from 'node:http'
import { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import test from 'ava'
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
    ids: () =>
      [
        ...Buffer.concat(taken)
          .toString()
          .matchAll(/^id: (\d+)\nevent/gm),
      ].map(([, id]) => Number(id)),
  }
}

/** Opens a stream from the beginning of a feed. */
function openStream(feed: Feed) {
  const stream = createEventStream(feed, async () => {})
  const query = { after: 0, recordsPerPage: 1, waitSeconds: 0, selects: undefined, others: '' }
  const app = new Koa().use(ctx => stream(ctx, query, 0))
  const server = http.createServer(app.callback())
  const connection = createUnreadConnection()
  server.emit('connection', connection.socket)
  return connection
}

test('stream: what a client has not read yet is one portion of the feed', async t => {
  const { feed, reads } = createLargeFeed()
  const { socket, takeAll, ids } = openStream(feed)
  // A stream that does not wait for its client reads one portion in each turn.
  for (let n = 0; n < 4 * PORTIONS; n++) await turn()
  t.is(reads(), 1)
  takeAll()
  while (ids().length < PORTIONS) await turn()
  t.deepEqual(
    ids(),
    Array.from({ length: PORTIONS }, (_, at) => at + 1),
  )
  socket.destroy()
})

test('stream: no event that has been written stays in memory, neither of a slow client nor of one that waits', async t => {
  const { feed, reads, kept } = createLargeFeed()
  const { socket, takeAll, ids } = openStream(feed)
  while (reads() === 0) await turn()
  for (let n = 0; n < 10; n++) await turn()
  t.is(await kept(), 0)
  takeAll()
  while (ids().length < PORTIONS) await turn()
  t.is(await kept(), 0)
  socket.destroy()
})
