// Writes JSON responses, with content negotiation and conditional reads.
import type { Context } from 'koa'
import { notAcceptable } from './errors.ts'
import { isUnmodified } from './requests/preconditions.ts'

/** The `Content-Type` of a text of this media type. */
export const inUtf8 = (type: string): string => `${type}; charset=utf-8`

const JSON_TYPE = inUtf8('application/json')

/** Browsers send some 150 characters. A header of 16 KiB with thousands of types would take 20 ms to parse. */
const MAX_ACCEPT_LENGTH = 1024

/** Responds with JSON, and with status 200 unless another one is set. @param text the body, as JSON text or its bytes */
export function respond(ctx: Context, text: string | Buffer): void {
  ctx.set('Content-Type', JSON_TYPE)
  ctx.body = text
}

/** Responds with an error. @param text the body, as JSON text */
export function respondFailure(ctx: Context, status: number, text: string): void {
  ctx.status = status
  ctx.set('Cache-Control', 'no-store')
  respond(ctx, text)
}

/** Sets the `ETag` header. @param etag the opaque tag, without its quotes */
export function setEtag(ctx: Context, etag: string): void {
  ctx.set('ETag', `"${etag}"`)
}

/**
 * Sets the `ETag` of a read, and responds with 304 if the client already has this version.
 * @param etag the opaque tag, without its quotes
 * @returns whether it responded with 304
 * @throws ApiError `precondition_failed` or `malformed_request`
 */
export function respondNotModified(ctx: Context, etag: string): boolean {
  const unmodified = isUnmodified(ctx.req.headers, etag)
  setEtag(ctx, etag)
  // A cache may store the response, but must revalidate it before each use. Without `private`, Squid shares a response among
  // simultaneous requests with different tokens.
  ctx.set('Cache-Control', ctx.state.caller === undefined ? 'no-cache' : 'private, no-cache')
  if (unmodified) ctx.status = 304
  return unmodified
}

/**
 * Responds to a read: with 304 and no body if the client already has this version.
 * @param etag the opaque tag of the text, without its quotes
 * @throws ApiError `precondition_failed` or `malformed_request`
 */
export function respondRead(ctx: Context, etag: string, text: string | Buffer): void {
  if (!respondNotModified(ctx, etag)) respond(ctx, text)
}

/**
 * Returns the media type that the Accept header prefers; undefined if it excludes them all. A very long header is disregarded, as
 * RFC 9110, 12.5.1 allows.
 */
export function preferredType(ctx: Context, ...types: readonly string[]): string | undefined {
  const { accept = '*/*' } = ctx.req.headers
  if (accept === '*/*' || accept === types[0] || accept.length > MAX_ACCEPT_LENGTH) return types[0]
  const preferred = ctx.accepts(...types.map(inUtf8))
  return types.find(type => inUtf8(type) === preferred)
}

/** @throws ApiError `not_acceptable` if the Accept header excludes this media type */
export function assertAccepts(ctx: Context, type: string): void {
  if (preferredType(ctx, type) === undefined) throw notAcceptable(type)
}

/** @throws ApiError `not_acceptable` if the Accept header excludes JSON */
export const assertAcceptsJson = (ctx: Context): void => assertAccepts(ctx, 'application/json')
