// Reduces the request target to its path and query, and normalizes the path before routing, so that all spellings match the same
// route: `%75sers` becomes `users`. An escaped slash stays escaped.
import type { Middleware } from 'koa'
import { ApiError } from '../../core/api-error.ts'
import { malformedPath } from '../errors.ts'

function normalize(path: string): string {
  return path
    .split('/')
    .map(segment => encodeURIComponent(decodeURIComponent(segment)))
    .join('/')
}

/**
 * A path and a query, or `*`. A scheme and a host can precede them, because targets in absolute form must be accepted (RFC 9112,
 * 3.2.2). The host must not be empty (RFC 9110, 4.2.1), the path may be.
 */
const targetPattern = /^(?:https?:\/\/[^/?#:][^/?#]*)?((?:\/[^?#]*)?(?:\?[^#]*)?|\*)$/i

/**
 * Returns the path and the query of a target. Koa would parse other targets with `url.parse`, which takes a backslash for a slash: a
 * proxy with rules for paths would read another path.
 */
function pathAndQuery(target: string): string {
  const found = targetPattern.exec(target)?.[1]
  if (found === undefined)
    throw new ApiError(
      'malformed_request',
      'the request target must be a path, or an http or https URL with a host, without a fragment',
    )
  return /^[/*]/.test(found) ? found : `/${found}`
}

/** Throws `malformed_request`. */
export const normalizePath: Middleware = (ctx, next) => {
  const target = pathAndQuery(ctx.url)
  if (target !== ctx.url) ctx.url = target
  if (ctx.path.includes('%')) {
    try {
      ctx.url = normalize(ctx.path) + ctx.search
    } catch {
      throw malformedPath()
    }
  }
  return next()
}
