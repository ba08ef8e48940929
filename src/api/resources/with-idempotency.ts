// POST requests that are safe to repeat: who names one with an Idempotency-Key gets its first answer again
// (draft-ietf-httpapi-idempotency-key-header).
import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Knex } from 'knex'
import type { Context } from 'koa'
import { ApiError, errorBody } from '../../core/api-error.ts'
import type { IdempotencyKeys, KeptAnswer } from '../../database/idempotency-keys.ts'
import { respond, respondFailure, setEtag } from '../respond.ts'

/** What a key may be. */
export const saneKey = /^[!-~]{1,255}$/

/** What a POST has done. */
export interface PostResult {
  readonly text: string
  readonly location?: string
  /** Without its quotes. */
  readonly etag?: string
}

/**
 * Answers with what `work` has done, or did when it was asked before.
 * `work` is given a transaction to write in if the request has a key; it writes nothing where it throws an ApiError.
 */
export type WithIdempotency = (
  ctx: Context,
  work: (trx?: Knex.Transaction) => Promise<PostResult>,
) => Promise<void>

/** @throws ApiError `malformed_request` */
function keyOf({ headers }: IncomingMessage): string | undefined {
  const key = headers['idempotency-key']
  if (key === undefined || (typeof key === 'string' && saneKey.test(key))) return key
  throw new ApiError('malformed_request', 'Idempotency-Key: must be 1 to 255 visible ASCII characters')
}

function fingerprintOf({ method, path, request }: Context): string {
  return hash('sha256', `${method} ${path}\n${request.rawBody}`, 'base64url')
}

const successOf = ({ text, location, etag }: PostResult): KeptAnswer => ({
  status: 200,
  location: location ?? null,
  etag: etag ?? null,
  body: text,
})

/** What the database has decided is kept, be it a success or a conflict; that it could not decide is not. */
async function outcomeOf(ctx: Context, work: Promise<PostResult>): Promise<KeptAnswer> {
  try {
    return successOf(await work)
  } catch (error) {
    if (!(error instanceof ApiError) || error.status >= 500) throw error
    const body = errorBody(error, ctx.response.get('Request-Id'))
    return { status: error.status, location: null, etag: null, body }
  }
}

function send(ctx: Context, { status, location, etag, body }: KeptAnswer): void {
  if (location !== null) ctx.set('Location', location)
  if (etag !== null) setEtag(ctx, etag)
  if (status < 400) respond(ctx, body)
  else respondFailure(ctx, status, body)
}

export function createWithIdempotency(keys: IdempotencyKeys): WithIdempotency {
  return async (ctx, work) => {
    const key = keyOf(ctx.req)
    if (key === undefined) return send(ctx, successOf(await work()))
    const { replayed, ...kept } = await keys.once(key, fingerprintOf(ctx), trx => outcomeOf(ctx, work(trx)))
    if (replayed) ctx.set('Idempotent-Replayed', 'true')
    send(ctx, kept)
  }
}
