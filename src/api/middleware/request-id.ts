// Gives every response a `Request-Id`: the one of the client if it is valid, else a new one.
import type { Middleware } from 'koa'
import { requestIdOf } from '../../listener/request-identity.ts'

export const requestId: Middleware = (ctx, next) => {
  ctx.res.setHeader('Request-Id', requestIdOf(ctx.req))
  return next()
}
