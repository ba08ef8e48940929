// Rejects requests whose target or headers exceed the configured limits. Node's parser has higher limits of its own, which
// only bound the memory (see listener/data-port.ts).
import type { Middleware } from 'koa'
import type { Config } from '../../config/config.ts'
import { ApiError } from '../../core/api-error.ts'

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
    if (url.length > limits.urlBytes)
      throw new ApiError('uri_too_long', `the request target exceeds the limit of ${limits.urlBytes} bytes`)
    if (headerBytes(rawHeaders) > limits.headerBytes)
      throw new ApiError('headers_too_large', `the headers exceed the limit of ${limits.headerBytes} bytes`)
    if (rawHeaders.length > 2 * limits.headers)
      throw new ApiError('headers_too_large', `the request has more than ${limits.headers} headers`)
    return next()
  }
}
