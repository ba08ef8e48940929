// Rejects requests whose target or headers exceed the configured limits. Node's parser has higher limits of its own, which
// only bound the memory (see listener/server.ts).
import type { Middleware } from 'koa'
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'
import { headersTooLarge, targetTooLong } from '../../listener/parser-errors.ts'

type Limits = Pick<Config['limits'], 'urlBytes' | 'headerBytes' | 'headers'>

/** The size of the header lines in bytes. Each line also has `: ` and CRLF: two bytes per name and two per value. */
function headerBytes(rawHeaders: readonly string[]): number {
  let bytes = 2 * rawHeaders.length
  for (const nameOrValue of rawHeaders) bytes += nameOrValue.length
  return bytes
}

/** Throws `uri_too_long` or `headers_too_large`. */
export function requestLimits(limits: Limits): Middleware {
  return ({ req: { url = '', rawHeaders } }, next) => {
    if (url.length > limits.urlBytes) throw targetTooLong(limits)
    if (headerBytes(rawHeaders) > limits.headerBytes) throw headersTooLarge(limits)
    if (rawHeaders.length > 2 * limits.headers)
      throw new ApiError('headers_too_large', `the request has more than ${limits.headers} headers`)
    return next()
  }
}
