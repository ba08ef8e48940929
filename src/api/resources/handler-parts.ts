// The parts that the handlers of all operations share.
import type { Context } from 'koa'
import type { Cache } from '../../cache/cache.ts'
import type { Config } from '../../config/config.ts'
import type { ApiError } from '../../core/api-error.ts'
import type { Semaphore } from '../../core/semaphore.ts'
import type { Origin } from '../../database/changes.ts'
import type { Database } from '../../database/database.ts'
import type { IdempotencyKeys } from '../../database/idempotency-keys.ts'
import type { Refusal } from '../../database/lane/outcome.ts'
import { idName, parseId, type Resource } from '../../model/resource.ts'
import { exists, notFound, versionMismatch } from '../errors.ts'
import type { ReadBody } from '../requests/body.ts'
import type { PathParams } from '../router.ts'

/** What the routes of all resources use. */
export interface Services {
  readonly resources: readonly Resource[]
  readonly limits: Config['limits']
  readonly database: Database
  readonly cache: Cache
  readonly readBody: ReadBody
  readonly idempotencyKeys: IdempotencyKeys
  /** Limits the large pages that are being made. Each can have `limits.responseBytes`, and needs several times as much. */
  readonly inLargePageSlot: Semaphore
}

/** Returns the request that a write comes from. */
export const originOf = (ctx: Context): Origin => ({
  by: ctx.state.caller?.name ?? null,
  requestId: ctx.response.get('Request-Id'),
})

/** Returns the error of a record that a write has refused. @param id the id in the request; none if only `exists` is possible */
export function refused(resource: Resource, refusal: Refusal, id = 0): ApiError {
  if (refusal === 'not_found') return notFound(resource, id)
  if (refusal === 'precondition_failed') return versionMismatch(resource, id)
  if (refusal === 'exists') return exists(resource)
  // The handlers of memberships have errors of their own for these. The compiler asks for the error of any other refusal.
  const unexpected: 'full' | 'membership_not_found' = refusal
  throw new Error(`a write of ${resource.plural} was refused: ${unexpected}`)
}

/** Returns the id of a record in the path. @throws ApiError with status 404 if it is not a valid id */
export function pathId(resource: Resource, params: PathParams): number {
  const text = params[idName(resource)] ?? ''
  const id = parseId(text)
  if (id === undefined) throw notFound(resource, text)
  return id
}
