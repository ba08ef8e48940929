// The first and last middleware: every response has a Request-Id, every failure is JSON, no request is over the limits.
import type { IncomingMessage } from 'node:http'
import type { Context, Middleware } from 'koa'
import type { Config } from '../../config/config.ts'
import { ApiError, errorBody } from '../../core/api-error.ts'
import { reasonOf } from '../../core/error-reason.ts'
import type { Log } from '../../core/log.ts'
import { securityHeaders } from '../../core/security-headers.ts'
import { requestIdOf } from '../../listener/request-id.ts'
import { traceOf } from '../../listener/trace.ts'
import { escapeBytes } from '../requests/query-string.ts'
import { respondFailure } from '../respond.ts'

const everyAnswer = Object.entries(securityHeaders)

/** A name or an address, and a port (RFC 3986, 3.2.2 and 3.2.3). */
const saneHost = /^(?:\[[\w:.~!$&'()*+,;=-]+\]|(?:[\w.~!$&'()*+,;=-]|%[\dA-Fa-f]{2})*)(?::\d*)?$/

/** @throws ApiError for what is over the limits, or breaks RFC 9112 where Node's parser lets it pass */
function assertSane(request: IncomingMessage, limits: Config['limits']): void {
  const { url = '', rawHeaders } = request
  if (url.length > limits.urlBytes)
    throw new ApiError('uri_too_long', `the request target is over the limit of ${limits.urlBytes} bytes`)
  let bytes = 0
  let hosts = 0
  let host = ''
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = [rawHeaders[at], rawHeaders[at + 1]]
    // On the wire `: ` and CRLF are between them.
    bytes += name.length + value.length + 4
    if (name.length === 4 && name.toLowerCase() === 'host') {
      hosts++
      host = value
    }
  }
  if (bytes > limits.headerBytes)
    throw new ApiError('headers_too_large', `the headers are over the limit of ${limits.headerBytes} bytes`)
  if (rawHeaders.length > 2 * limits.headers)
    throw new ApiError('headers_too_large', `the headers are over the limit of ${limits.headers} headers`)
  if (request.httpVersionMajor !== 1)
    throw new ApiError(
      'malformed_request',
      `HTTP/${request.httpVersion} is not spoken here: allowed are 1.0 and 1.1`,
    )
  // RFC 9112, 3.2: exactly one Host in HTTP/1.1.
  if (hosts > 1 || (hosts === 0 && request.httpVersion === '1.1'))
    throw new ApiError('malformed_request', `the request has ${hosts} Host headers, one is needed`)
  if (!saneHost.test(host))
    throw new ApiError('malformed_request', 'Host: must be a name or an address, with or without a port')
}

/** @throws ApiError for a body that others may see end elsewhere (RFC 9112, 6.1): the connection ends with it */
function assertFraming(req: IncomingMessage): void {
  const coding = req.headers['transfer-encoding']
  if (coding === undefined || (coding.toLowerCase() === 'chunked' && req.httpVersion === '1.1')) return
  const message = 'Transfer-Encoding: must be chunked, in HTTP/1.1, and nothing else'
  throw new ApiError('malformed_request', message, { headers: { Connection: 'close' } })
}

/** @throws ApiError for what this server cannot do (RFC 9110, 10.1.1) */
function assertExpectation({ headers: { expect }, httpVersion }: IncomingMessage): void {
  if (expect !== undefined && httpVersion === '1.1' && expect.toLowerCase() !== '100-continue')
    throw new ApiError('expectation_failed', 'the only known expectation is 100-continue')
}

/** Every spelling of a path becomes one: `%75sers` is `users`, but an escaped slash stays. @throws ApiError */
function normalizePath(ctx: Context): void {
  const { path } = ctx
  if (!/[%\x80-\xff]/.test(path)) return
  try {
    ctx.path = escapeBytes(path)
      .split('/')
      .map(part => encodeURIComponent(decodeURIComponent(part)))
      .join('/')
  } catch {
    throw new ApiError('malformed_request', 'the path is not percent-encoded UTF-8')
  }
}

/** The pattern that the router has found for the path. */
function routeOf(ctx: Context): string | undefined {
  return '_matchedRoute' in ctx && typeof ctx._matchedRoute === 'string' ? ctx._matchedRoute : undefined
}

function fail(ctx: Context, thrown: unknown, requestId: string, log: Log): void {
  const error =
    thrown instanceof ApiError
      ? thrown
      : new ApiError('internal_error', 'something went wrong here, the request id leads to its log line', {
          cause: thrown,
        })
  // There are many of them at a time, all for one reason that needs no stack.
  const reason = error.code === 'unavailable' ? reasonOf(error.cause ?? error.message) : error.cause
  if (error.status >= 500)
    log.error(
      { requestId, ...traceOf(ctx.req.headers), reason, method: ctx.method, path: ctx.path },
      error.code,
    )
  ctx.set(error.headers)
  // The client may keep back the body that it asked to send: what comes next could be that, or another request.
  if (ctx.req.headers.expect !== undefined) ctx.set('Connection', 'close')
  respondFailure(ctx, error.status, errorBody(error, requestId))
}

export function createEdge(limits: Config['limits'], log: Log): Middleware {
  return async (ctx, next) => {
    const requestId = requestIdOf(ctx.req)
    ctx.set('Request-Id', requestId)
    // Past Koa, which would look at each value again.
    for (const [name, value] of everyAnswer) ctx.res.setHeader(name, value)
    try {
      assertSane(ctx.req, limits)
      assertFraming(ctx.req)
      assertExpectation(ctx.req)
      normalizePath(ctx)
      await next()
    } catch (error) {
      fail(ctx, error, requestId, log)
    }
    // For the log.
    ctx.res.route = routeOf(ctx)
  }
}
