// Gives every response a `Request-Id`: the client's if it is valid, otherwise a new one.
import type { Middleware } from 'koa'
import { requestIdOf } from '../../listener/request-identity.ts'

export const requestId: Middleware = (ctx, next) => {
  ctx.res.setHeader('Request-Id', requestIdOf(ctx.req))
  return next()
}
