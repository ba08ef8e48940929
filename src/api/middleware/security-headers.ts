// Sets the security headers on every response.
import type { Middleware } from 'koa'
import { securityHeaders as headers } from '../../core/response-headers.ts'

const entries = Object.entries(headers)

export const securityHeaders: Middleware = (ctx, next) => {
  // `ctx.set` would convert each value again, and these are constant strings.
  for (const [name, value] of entries) ctx.res.setHeader(name, value)
  return next()
}
