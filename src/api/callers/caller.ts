// The callers of the API, what they may do, and the errors for requests whose caller may not send them.
import type { ApiKey } from '../../config/auth.ts'
import { ApiError } from '../../core/api-error.ts'

/** `write` implies `read`. */
export type Scope = ApiKey['scope']

export interface Caller {
  /** For the log. */
  readonly name: string
  /** Different for any two callers, also for an API key and a JWT with the same name. */
  readonly identity: string
  /** Undefined if the caller may do nothing. */
  readonly scope: Scope | undefined
}

const challenge = 'Bearer realm="users-api"'

/** A request without a token. The challenge has no error code (RFC 6750, 3.1). */
export const missingToken = (): ApiError =>
  new ApiError('unauthorized', 'the request has no token: send it as Authorization: Bearer <token>', {
    headers: { 'WWW-Authenticate': challenge },
  })

/** A token that identifies no caller (RFC 6750, 3.1). @param reason printable ASCII without `"` and `\` */
export const invalidToken = (reason: string): ApiError =>
  new ApiError('unauthorized', reason, {
    headers: { 'WWW-Authenticate': `${challenge}, error="invalid_token", error_description="${reason}"` },
  })

/** A caller that needs another scope (RFC 6750, 3.1). */
export function insufficientScope(needed: Scope): ApiError {
  const reason = `this request needs the scope users:${needed}, which the token does not have`
  return new ApiError('forbidden', reason, {
    headers: {
      'WWW-Authenticate': `${challenge}, error="insufficient_scope", error_description="${reason}", scope="users:${needed}"`,
    },
  })
}

/** The scope that a method needs. */
export const scopeOf = (method: string): Scope => (method === 'GET' || method === 'HEAD' ? 'read' : 'write')

export const hasScope = ({ scope }: Caller, needed: Scope): boolean => scope === 'write' || scope === needed
