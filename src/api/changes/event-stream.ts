// Streams the change feed as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Context } from 'koa'
import type { FeedEvent } from '../../database/feed/events.ts'
import type { Feed } from '../../database/feed/feed.ts'
import { inUtf8 } from '../respond.ts'
import type { ChangesQuery } from './changes-query.ts'
import { type SelectedChanges, selectChanges } from './select-changes.ts'

export const EVENT_STREAM = 'text/event-stream'
const RETRY_MS = 3000
const HEARTBEAT_MS = 15_000
/** The most events that are written at once. */
const PORTION_EVENTS = 1000

const headers = {
  'Content-Type': inUtf8(EVENT_STREAM),
  'Cache-Control': 'no-store',
  // nginx would hold the events back (https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_buffering).
  'X-Accel-Buffering': 'no',
}

/** The reader comes back with this position. A block without data is no event. */
const positionText = (position: number) => `id: ${position}\n\n`

/** Returns a function that encodes events. Readers at the same place share the result of the last call. */
function createEncoder() {
  let last = { from: 0, to: 0, chunk: Buffer.alloc(0) }
  return (events: readonly FeedEvent[], isShared: boolean): Buffer => {
    const [from, to] = [events[0]?.id ?? 0, events.at(-1)?.id ?? 0]
    if (isShared && last.from === from && last.to === to) return last.chunk
    const blocks = events.map(({ id, type, text }) => `id: ${id}\nevent: ${type}\ndata: ${text}\n\n`)
    const chunk = Buffer.from(blocks.join(''))
    if (isShared) last = { from, to, chunk }
    return chunk
  }
}

/** Resolves when the client has read enough for more to be sent, or when `signal` is aborted. */
async function untilWritable(response: ServerResponse, signal: AbortSignal): Promise<void> {
  if (response.writableNeedDrain) await once(response, 'drain', { signal }).catch(() => {})
}

/** Where a stream goes on. It waits with nothing else in memory: there can be thousands of streams, and events take space. */
type Place = Pick<SelectedChanges, 'end' | 'isAtEnd'>

/** Sends events until `signal` is aborted. @param sendNext reads the events after a position, and sends them */
async function sendEvents(
  feed: Feed,
  response: ServerResponse,
  first: Place,
  signal: AbortSignal,
  sendNext: (after: number) => Promise<Place>,
): Promise<void> {
  let place = first
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(positionText(place.end))
  }, HEARTBEAT_MS)
  try {
    for (;;) {
      await untilWritable(response, signal)
      if (place.isAtEnd) await feed.changed(place.end, signal)
      if (signal.aborted) return
      place = await sendNext(place.end)
    }
  } finally {
    clearInterval(heartbeat)
  }
}

/** @param assertAllowed throws if the request would be refused now */
export function createEventStream(feed: Feed, assertAllowed: (ctx: Context) => Promise<void>) {
  const encode = createEncoder()

  /** Responds with the events after a position. It resolves when the stream has ended. @throws ApiError before its first byte */
  return async (ctx: Context, query: ChangesQuery, after: number | undefined): Promise<void> => {
    const { res } = ctx
    const select = (position: number | undefined) =>
      selectChanges(feed, query, position, PORTION_EVENTS, false)

    function send({ events, end, isAtEnd }: SelectedChanges): Place {
      if (events.length > 0) res.write(encode(events, query.selects === undefined))
      return { end, isAtEnd }
    }

    /** Begins the response, after the first read. Returns undefined if the response is complete. */
    async function begin(): Promise<Place | undefined> {
      const first = await select(after)
      for (const [name, value] of Object.entries(headers)) res.setHeader(name, value)
      // middleware/unfinished-request.ts comes too late for a response that begins here.
      if (!ctx.req.complete) res.setHeader('Connection', 'close')
      res.statusCode = 200
      res.awaitsEvent = true
      ctx.respond = false
      if (ctx.method === 'HEAD') {
        res.end()
        return undefined
      }
      res.write(`retry: ${RETRY_MS}\n${positionText(first.start)}`)
      return send(first)
    }

    const place = await begin()
    if (place === undefined) return
    const controller = new AbortController()
    const { socket } = ctx.req
    const end = () => controller.abort()
    res.once('close', end)
    // The client has most likely gone. Otherwise, only the second heartbeat would show it.
    socket.once('end', end)
    res.drainDelayOver?.addEventListener('abort', end)
    // The client can have disconnected meanwhile: no other `close` or `end` follows.
    if (res.destroyed || socket.readableEnded || res.drainDelayOver?.aborted === true) end()
    const recheck = setInterval(() => void assertAllowed(ctx).catch(end), HEARTBEAT_MS)
    const sendNext = async (position: number) => send(await select(position))
    // A token or positions that expire, and an outage of the database, end the stream. The reader comes back and gets the error.
    await sendEvents(feed, res, place, controller.signal, sendNext).catch(() => {})
    clearInterval(recheck)
    socket.off('end', end)
    res.drainDelayOver?.removeEventListener('abort', end)
    res.end()
  }
}
