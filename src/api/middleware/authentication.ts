// Admits only requests with the token of a caller whose scope includes the method (RFC 6750). The body is not read yet.
import type { Context, Middleware } from 'koa'
import {
  type Caller,
  hasScope,
  insufficientScope,
  invalidToken,
  missingToken,
  scopeOf,
} from '../callers/caller.ts'
import type { FindCaller } from '../callers/find-caller.ts'

/** The syntax of a token (RFC 6750, 2.1). */
const tokenPattern = /^[\w.~+/-]+=*$/

/** The scheme in any case (RFC 9110, 11.1). Another scheme counts as no token. */
const schemePattern = /^Bearer(?: +|$)/i

function tokenOf(authorization = ''): string {
  const [scheme] = schemePattern.exec(authorization) ?? []
  if (scheme === undefined) throw missingToken()
  const token = authorization.slice(scheme.length)
  if (!tokenPattern.test(token)) throw invalidToken('the token is malformed')
  return token
}

/** Returns the caller of an admitted request; undefined if the API is open. */
export function callerOf({ state }: Context): Caller | undefined {
  const { caller }: { caller?: Caller } = state
  return caller
}

/** Throws `unauthorized`, `forbidden` or `unavailable`. */
export function authentication(findCaller: FindCaller): Middleware {
  return async (ctx, next) => {
    const found = findCaller(tokenOf(ctx.req.headers.authorization))
    const caller = found instanceof Promise ? await found : found
    // For the request log.
    ctx.res.caller = caller.name
    const needed = scopeOf(ctx.method)
    if (!hasScope(caller, needed)) throw insufficientScope(needed)
    ctx.state.caller = caller
    await next()
  }
}
