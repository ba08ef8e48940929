// Makes POST requests safe to repeat: a repeated request with the same Idempotency-Key gets the first response again
// (draft-ietf-httpapi-idempotency-key-header).
import { hash } from 'node:crypto'
import type { Context } from 'koa'
import { ApiError, errorBody } from '../../core/api-error.ts'
import type { IdempotencyKeys } from '../../database/idempotency-keys.ts'
import type { SavedResponse } from '../../database/idempotency-rows.ts'
import { idempotencyKeyOf } from '../requests/idempotency-key.ts'
import { respond, respondFailure, setEtag } from '../respond.ts'
import type { PostWork } from './post-work.ts'

/**
 * Returns the key under which a response is saved: keys of different callers never meet. The space in it keeps it
 * different from every key that was saved for an open API, where the key itself is used.
 */
function savedKeyOf({ state: { caller } }: Context, key: string): string {
  return caller === undefined ? key : `caller ${hash('sha256', `${caller.identity}\n${key}`, 'base64url')}`
}

function fingerprintOf({ method, path, request }: Context): string {
  return hash('sha256', `${method} ${path}\n${request.rawBody}`, 'base64url')
}

/**
 * A success is saved, and so is an error that the write has found, such as a conflict. A server error is not, so that the
 * request can be retried with the same key. Nor is a failed precondition, so that the request can be sent again with the
 * current ETag: conditions are no part of what the key stands for.
 */
function responseToSave(ctx: Context, respond: () => SavedResponse): SavedResponse {
  try {
    return respond()
  } catch (error) {
    if (!(error instanceof ApiError) || error.status >= 500 || error.status === 412) throw error
    const body = errorBody(error, ctx.response.get('Request-Id'))
    return { status: error.status, location: null, etag: null, body }
  }
}

function send(ctx: Context, { status, location, etag, body }: SavedResponse): void {
  if (location !== null) ctx.set('Location', location)
  if (etag !== null) setEtag(ctx, etag)
  if (status < 400) respond(ctx, body)
  else respondFailure(ctx, status, body)
}

/**
 * Writes, and responds with the result, or with the saved response of an earlier request with the same key. A batch whose entries
 * are all invalid is not saved, like every invalid request.
 */
export async function respondOnce<Item>(
  ctx: Context,
  keys: IdempotencyKeys,
  { writer, item, responseOf, hasRecords }: PostWork<Item>,
): Promise<void> {
  const key = idempotencyKeyOf(ctx.req.headers)
  if (key === undefined || !hasRecords) return send(ctx, responseOf(await writer.write(item)))
  const { replayed, ...response } = await keys.once(savedKeyOf(ctx, key), fingerprintOf(ctx), claim =>
    writer.writeOnce(item, { ...claim, responseOf: result => responseToSave(ctx, () => responseOf(result)) }),
  )
  if (replayed) ctx.set('Idempotent-Replayed', 'true')
  send(ctx, response)
}
