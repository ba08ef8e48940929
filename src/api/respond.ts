// Answers, and whether the client wants them, or has them already.
import type { Context } from 'koa'
import { ApiError } from '../core/api-error.ts'
import { isUnmodified } from './requests/preconditions.ts'

/** As a text of this media type is sent. */
export const inUtf8 = (type: string): string => `${type}; charset=utf-8`

const JSON_TYPE = inUtf8('application/json')

/** @param text of the JSON that answers with status 200 */
export function respond(ctx: Context, text: string): void {
  ctx.set('Content-Type', JSON_TYPE)
  ctx.body = text
}

/** @param text of the JSON that says what failed */
export function respondFailure(ctx: Context, status: number, text: string): void {
  ctx.status = status
  ctx.set('Cache-Control', 'no-store')
  respond(ctx, text)
}

/** Says which version of the resource this is. @param etag without its quotes */
export function setEtag(ctx: Context, etag: string): void {
  ctx.set('ETag', `"${etag}"`)
}

/**
 * Says which version of a read this is, and answers with 304 where the client has it already.
 * @param etag without its quotes
 * @returns whether that was the answer
 * @throws ApiError `precondition_failed` or `malformed_request`
 */
export function respondNotModified(ctx: Context, etag: string): boolean {
  const unmodified = isUnmodified(ctx.req.headers, etag)
  setEtag(ctx, etag)
  // Caches may keep it, but ask each time: no read is ever stale.
  ctx.set('Cache-Control', 'no-cache')
  if (unmodified) ctx.status = 304
  return unmodified
}

/**
 * Answers a read: with 304 and no text where the client has it already.
 * @param etag of the text, without its quotes
 * @throws ApiError `precondition_failed` or `malformed_request`
 */
export function respondRead(ctx: Context, etag: string, text: string): void {
  if (!respondNotModified(ctx, etag)) respond(ctx, text)
}

/** @throws ApiError `not_acceptable` where the Accept header rules this media type out */
export function assertAccepts(ctx: Context, type: string): void {
  const accept = ctx.req.headers.accept
  if (accept === undefined || accept === '*/*' || accept === type) return
  if (ctx.accepts(inUtf8(type)) === false)
    throw new ApiError('not_acceptable', `the answer is ${type}, which the Accept header rules out`)
}

/** @throws ApiError `not_acceptable` where the Accept header rules JSON out */
export const assertAcceptsJson = (ctx: Context): void => assertAccepts(ctx, 'application/json')
