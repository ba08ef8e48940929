// Normalizes the path before routing, so that all spellings match the same route: `%75sers` becomes `users`. An escaped
// slash stays escaped.
import type { Middleware } from 'koa'
import { malformedPath } from '../errors.ts'
import { escapeBytes } from '../requests/query-string.ts'

function normalize(path: string): string {
  const segments = escapeBytes(path).split('/')
  return segments.map(segment => encodeURIComponent(decodeURIComponent(segment))).join('/')
}

/** Throws `malformed_request`. */
export const normalizePath: Middleware = (ctx, next) => {
  const { path } = ctx
  if (/[%\x80-\xff]/.test(path)) {
    try {
      ctx.path = normalize(path)
    } catch {
      throw malformedPath()
    }
  }
  return next()
}
