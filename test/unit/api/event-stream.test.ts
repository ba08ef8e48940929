// The server-sent events of the change feed, over a connection whose client reads only what the test lets it read.
import { once } from 'node:events'
import http from 'node:http'
import { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import test from 'ava'
import Koa from 'koa'
import { createEventStream } from '../../../src/api/changes/event-stream.ts'
import type { Feed } from '../../../src/database/feed/feed.ts'

/** More than the service writes before it waits for the client. */
const TEXT_BYTES = 100_000
const PORTIONS = 50

/** A feed with one large event in each portion. */
function createLargeFeed() {
  let reads = 0
  const event = (id: number) => ({ id, type: 'user.created', ids: {}, text: 'x'.repeat(TEXT_BYTES) })
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
  return { feed, reads: () => reads }
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

test('stream: what a client has not read yet is one portion of the feed', async t => {
  const { feed, reads } = createLargeFeed()
  const stream = createEventStream(feed, async () => {})
  const query = { after: 0, recordsPerPage: 1, waitSeconds: 0, selects: undefined, others: '' }
  const app = new Koa().use(ctx => stream(ctx, query, 0))
  const server = http.createServer(app.callback())
  const { socket, takeAll, ids } = createUnreadConnection()
  server.emit('connection', socket)
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
