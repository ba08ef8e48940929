// The parts that the handlers of all operations share.
import type { Context } from 'koa'
import type { Cache } from '../../cache/cache.ts'
import type { Config } from '../../config/config.ts'
import type { Counts } from '../../database/counting/counts.ts'
import type { Database } from '../../database/database.ts'
import type { Semaphore } from '../../database/semaphore.ts'
import { idName, parseId, type Resource } from '../../model/resource.ts'
import { notAnObject, notFound } from '../errors.ts'
import type { ReadBody } from '../requests/body.ts'
import { isObject, type JsonObject } from '../requests/validation.ts'
import { assertAcceptsJson } from '../respond.ts'
import type { CheckPath, PathParams } from '../router.ts'
import type { WithIdempotency } from './with-idempotency.ts'

/** What the handlers of all resources share. */
export interface Shared {
  readonly resources: readonly Resource[]
  readonly limits: Config['limits']
  readonly database: Database
  readonly cache: Cache
  readonly counts: Counts
  readonly readBody: ReadBody
  readonly withIdempotency: WithIdempotency
  /** Limits the large pages that are being made. Each can have `limits.responseBytes`, and needs several times as much. */
  readonly inLargePageSlot: Semaphore
}

/** Returns the id of a record in the path. @throws ApiError with status 404 if it is not a valid id */
export function pathId(resource: Resource, params: PathParams): number {
  const text = params[idName(resource)] ?? ''
  const id = parseId(text)
  if (id === undefined) throw notFound(resource, text)
  return id
}

/** Returns a check that the id of a record in the path is valid. */
export const checkId =
  (resource: Resource): CheckPath =>
  params =>
    void pathId(resource, params)

/** Checks the media types, then reads the body. @throws ApiError */
export async function objectBody(ctx: Context, readBody: ReadBody): Promise<JsonObject> {
  assertAcceptsJson(ctx)
  const body = await readBody(ctx)
  if (!isObject(body)) throw notAnObject('the body')
  return body
}
