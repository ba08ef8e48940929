// Responds with JSON to every error thrown by later middleware, and logs the server errors.
import type { Context, Middleware } from 'koa'
import { ApiError, errorBody } from '../../core/api-error.ts'
import { reasonOf } from '../../core/error-reason.ts'
import type { Log } from '../../core/log.ts'
import { traceOf } from '../../listener/request-identity.ts'
import { internalError } from '../errors.ts'
import { respondFailure } from '../respond.ts'

function logServerError(ctx: Context, error: ApiError, requestId: string, log: Log): void {
  // These have a known reason: a stack trace adds nothing.
  const reason = error.code === 'unavailable' ? reasonOf(error) : error.cause
  // Not the path: what a client sends there can be personal data.
  const { route } = ctx.res
  log.error({ requestId, ...traceOf(ctx.req.headers), reason, method: ctx.method, route }, error.code)
}

/**
 * Requires `requestId` earlier in the chain.
 * @param isOutage whether an outage of the database is known and logged; an error `unavailable` is not logged then
 */
export function errorHandler(log: Log, isOutage: () => boolean): Middleware {
  return async (ctx, next) => {
    try {
      await next()
    } catch (thrown) {
      const error = thrown instanceof ApiError ? thrown : internalError(thrown)
      const requestId = ctx.response.get('Request-Id')
      if (error.status >= 500 && !(error.code === 'unavailable' && isOutage()))
        logServerError(ctx, error, requestId, log)
      ctx.set(error.headers)
      respondFailure(ctx, error.status, errorBody(error, requestId))
    }
  }
}
