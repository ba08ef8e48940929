// Describes in the document how callers identify themselves, if the API is not open.
import { insufficientScope, missingToken, scopeOf } from '../callers/caller.ts'
import { type DescribedRoute, failureResponses, header } from './operation.ts'

const scheme = 'token'

/** The parts of `components` that only an API with callers has. */
export const callerComponents = {
  securitySchemes: {
    [scheme]: {
      type: 'http',
      scheme: 'bearer',
      description:
        'An API key, or a JWT of the issuer that the service trusts. `GET` and `HEAD` need the scope `users:read`. All other methods need `users:write`, which implies `users:read`.',
    },
  },
  headers: {
    'WWW-Authenticate': header(
      'Describes how to authenticate and what is wrong with the token (RFC 6750). Sent with status 401 and 403.',
    ),
  },
}

/**
 * Adds to a route that its operation needs a token, and the failures without the scope that it needs. The scope is not in `security`:
 * OpenAPI 3.1 allows roles there, but Spectral reports them for all schemes but those of OAuth.
 */
export function withCaller<Route extends DescribedRoute>(route: Route): Route {
  const { method, operation } = route
  const needed = scopeOf(method.toUpperCase())
  return {
    ...route,
    operation: {
      ...operation,
      security: [{ [scheme]: [] }],
      responses: { ...operation.responses, ...failureResponses([missingToken(), insufficientScope(needed)]) },
    },
  }
}
