// Successful answers, and whether the client wants them.
import type { Context } from 'koa'
import { ApiError } from './errors.ts'

const JSON_TYPE = 'application/json; charset=utf-8'

/** @param text of the JSON that answers with status 200 */
export function answer(ctx: Context, text: string): void {
  ctx.set('Content-Type', JSON_TYPE)
  ctx.body = text
}

/** @throws ApiError `not_acceptable` where the Accept header rules JSON out */
export function assertAcceptsJson(ctx: Context): void {
  const accept = ctx.req.headers.accept
  if (accept === undefined || accept === '*/*' || accept === 'application/json') return
  if (ctx.accepts('application/json') === false)
    throw new ApiError('not_acceptable', 'the answer is application/json, which the Accept header rules out')
}
