// Normalizes the path before routing, so that all spellings match the same route: `%75sers` becomes `users`. An escaped
// slash stays escaped.
import type { Context, Middleware } from 'koa'
import { ApiError } from '../../core/api-error.ts'
import { malformedPath } from '../errors.ts'

function normalize(path: string): string {
  return path
    .split('/')
    .map(segment => encodeURIComponent(decodeURIComponent(segment)))
    .join('/')
}

/** Koa parses the target with `url.parse`, which throws for some hosts, such as that of `http://[::/v1/users`. */
function pathOf(ctx: Context): string {
  try {
    return ctx.path
  } catch {
    throw new ApiError('malformed_request', 'the request target is neither a path nor a valid URL')
  }
}

/** Throws `malformed_request`. */
export const normalizePath: Middleware = (ctx, next) => {
  const path = pathOf(ctx)
  if (path.includes('%')) {
    try {
      // Without the authority of an absolute URL, which would be parsed again.
      ctx.url = normalize(path) + ctx.search
    } catch {
      throw malformedPath()
    }
  }
  return next()
}
