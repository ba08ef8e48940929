// The policy that admits only requests with the token of a caller whose scope includes the method (RFC 6750).
import type { IncomingMessage } from 'node:http'
import {
  type Caller,
  hasScope,
  insufficientScope,
  invalidToken,
  missingToken,
  scopeOf,
} from '../callers/caller.ts'
import type { FindCaller } from '../callers/callers.ts'
import type { Policy } from '../router.ts'

declare module 'koa' {
  // Koa declares all other members as `any`.
  interface DefaultState {
    /** The caller of an admitted request; undefined if the API is open. */
    caller?: Caller
  }
}

/** In upper or lower case (RFC 9110, 11.1). Another scheme counts as no token. */
const scheme = /^Bearer /i

function tokenOf({
  headersDistinct: { authorization: [authorization = '', ...others] = [] },
}: IncomingMessage): string {
  // Node.js would use the first header, and a proxy may have checked another one.
  if (others.length > 0) throw invalidToken('the request has several Authorization headers')
  if (!scheme.test(authorization)) throw missingToken()
  return authorization.slice('Bearer '.length).trim()
}

/** The policy throws `unauthorized`, `forbidden` or `unavailable`. */
export function authentication(findCaller: FindCaller): Policy {
  return async (ctx, next) => {
    const caller = await findCaller(tokenOf(ctx.req))
    // For the request log.
    ctx.res.caller = caller.name
    const needed = scopeOf(ctx.method)
    if (!hasScope(caller, needed)) throw insufficientScope(needed)
    ctx.state.caller = caller
    return next()
  }
}
