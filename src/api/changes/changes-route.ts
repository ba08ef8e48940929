// The route of the change feed: pages, which can wait for an event, and streams. It checks for faults in this order:
// parameters, headers, position.
import type { Context } from 'koa'
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import type { Feed } from '../../database/feed/feed.ts'
import { collectionText } from '../../model/representation.ts'
import { MAX_ID, type Resource } from '../../model/resource.ts'
import { notAcceptable, pageTooLarge } from '../errors.ts'
import { textEtag } from '../resources/etags.ts'
import { preferredType, respondRead } from '../respond.ts'
import type { Handler, Policy, Route } from '../router.ts'
import { describeChanges } from './changes-operation.ts'
import { type ChangesQuery, lastEventIdPattern, parseChangesQuery } from './changes-query.ts'
import { createEventStream, EVENT_STREAM } from './event-stream.ts'
import { type SelectedChanges, selectChanges } from './select-changes.ts'

function metaOf(path: string, { recordsPerPage, others }: ChangesQuery, { events, end }: SelectedChanges) {
  return {
    status: 200,
    message: events.length === 1 ? '1 change' : `${events.length} changes`,
    links: { next: `${path}?${others}after=${end}&records_per_page=${recordsPerPage}` },
  }
}

/**
 * Returns the position of a reader that comes back to a stream. Clients that have no position yet leave the header out or empty:
 * to both, HTML gives the same meaning.
 * @throws ApiError `malformed_request`
 */
function lastEventId(ctx: Context): number | undefined {
  const sent = ctx.req.headers['last-event-id']
  if (sent === undefined || sent === '') return undefined
  const id = typeof sent === 'string' && lastEventIdPattern.test(sent) ? Number(sent) : Infinity
  if (id <= MAX_ID) return id
  throw new ApiError(
    'malformed_request',
    `Last-Event-ID: must be the id of an event, an integer up to ${MAX_ID}`,
  )
}

/**
 * Calls `wait` with a signal that is aborted after `seconds`, when the port drains, and when the client disconnects or ends its
 * side of the connection: then it has most likely gone.
 */
async function whileWaiting(
  { req: { socket }, res }: Context,
  seconds: number,
  wait: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const controller = new AbortController()
  const end = () => controller.abort()
  const timer = setTimeout(end, seconds * 1000)
  res.once('close', end)
  socket.once('end', end)
  res.draining?.addEventListener('abort', end)
  // What has happened before causes no further event.
  if (res.destroyed || socket.readableEnded || res.draining?.aborted === true) end()
  res.awaitsEvent = true
  try {
    await wait(controller.signal)
  } finally {
    clearTimeout(timer)
    res.off('close', end)
    socket.off('end', end)
    res.draining?.removeEventListener('abort', end)
  }
}

export function createChangesRoute(
  feed: Feed,
  resources: readonly Resource[],
  limits: Config['limits'],
  policies: readonly Policy[],
): Route {
  /** A token can expire while a stream lasts. @throws ApiError */
  async function assertAllowed(ctx: Context): Promise<void> {
    for (const policy of policies) await policy(ctx, async () => {})
  }
  const stream = createEventStream(feed, assertAllowed)

  async function page(ctx: Context, query: ChangesQuery): Promise<SelectedChanges> {
    const { after, recordsPerPage, waitSeconds } = query
    const select = (position: number | undefined) =>
      selectChanges(feed, query, position, recordsPerPage, waitSeconds === 0)
    const atEnd = (end: number): SelectedChanges => ({ events: [], start: end, end, isAtEnd: true })
    let selection = after === 'latest' ? atEnd(await feed.latest()) : await select(after)
    if (waitSeconds > 0)
      await whileWaiting(ctx, waitSeconds, async signal => {
        while (selection.events.length === 0 && !signal.aborted) {
          if (selection.isAtEnd) await feed.changed(selection.end, signal)
          // Nothing more is read for a request that need not wait any longer: the database can be away.
          if (!signal.aborted) selection = await select(selection.end)
        }
      })
    return selection
  }

  const handler: Handler = async ctx => {
    const query = parseChangesQuery(resources, ctx.querystring, limits)
    const resumed = lastEventId(ctx)
    const type = preferredType(ctx, 'application/json', EVENT_STREAM)
    if (resumed !== undefined || type === EVENT_STREAM) {
      const after = resumed ?? query.after
      return stream(ctx, query, after === 'latest' ? await feed.latest() : after)
    }
    if (type === undefined) throw notAcceptable(`application/json or ${EVENT_STREAM}`)
    const selection = await page(ctx, query)
    const texts = selection.events.map(({ text }) => text)
    const body = collectionText('changes', texts, metaOf(ctx.path, query, selection))
    if (Buffer.byteLength(body) > limits.responseBytes) throw pageTooLarge(limits.responseBytes, 'lower it')
    respondRead(ctx, textEtag(body), body)
  }

  return { ...describeChanges(resources, limits), policies, handler }
}
