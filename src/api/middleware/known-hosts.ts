// Rejects requests for names that are not those of this server.
import type { Middleware } from 'koa'
import { ApiError } from '../../core/api-error.ts'
import { type IsKnownHost, namedHost, unknownHost } from '../../core/known-hosts.ts'

/** Throws `malformed_request`. */
export const knownHosts =
  (isKnownHost: IsKnownHost): Middleware =>
  ({ req }, next) => {
    if (!isKnownHost(namedHost(req))) throw new ApiError('malformed_request', unknownHost)
    return next()
  }
