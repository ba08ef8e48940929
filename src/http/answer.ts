// Successful answers, and whether the client wants them, or has them already.
import type { Context } from 'koa'
import { isUnmodified } from './conditions.ts'
import { ApiError } from './errors.ts'

const JSON_TYPE = 'application/json; charset=utf-8'

/** @param text of the JSON that answers with status 200 */
export function answer(ctx: Context, text: string): void {
  ctx.set('Content-Type', JSON_TYPE)
  ctx.body = text
}

/** Says which version of the resource this is. @param etag without its quotes */
export function setEtag(ctx: Context, etag: string): void {
  ctx.set('ETag', `"${etag}"`)
}

/**
 * Answers a read: with 304 and no text where the client has it already.
 * @param etag of the text, without its quotes
 * @throws ApiError `precondition_failed` or `malformed_request`
 */
export function answerRead(ctx: Context, etag: string, text: string): void {
  const unmodified = isUnmodified(ctx.req.headers, etag)
  setEtag(ctx, etag)
  // Caches may keep it, but ask each time: no read is ever stale.
  ctx.set('Cache-Control', 'no-cache')
  if (unmodified) ctx.status = 304
  else answer(ctx, text)
}

/** @throws ApiError `not_acceptable` where the Accept header rules JSON out */
export function assertAcceptsJson(ctx: Context): void {
  const accept = ctx.req.headers.accept
  if (accept === undefined || accept === '*/*' || accept === 'application/json') return
  if (ctx.accepts('application/json') === false)
    throw new ApiError('not_acceptable', 'the answer is application/json, which the Accept header rules out')
}
