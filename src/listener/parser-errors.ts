// The answers to what never gets to the application: the HTTP parser refuses it, it is not for an origin server, or there
// is too much of it.
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Config } from '../config/config.ts'
import { ApiError, errorBody, errorHeaders, rawError, unavailable } from '../core/api-error.ts'

// Time for the client to read the answer: closing at once, with input unread, would reset the connection.
const LINGER_MS = 1000

export interface ParserError extends Error {
  readonly code?: string
  /** The bytes that were being parsed; missing where the time was up. */
  readonly rawPacket?: Buffer
}

/**
 * Whether it was the request line that overflowed. It begins in this packet, or it ends there: a packet is smaller
 * than what the parser takes in all, so what came before it was of the same line.
 */
function isUriTooLong(packet: Buffer | undefined, limitBytes: number): boolean {
  const text = packet?.toString('latin1') ?? ''
  const target = /^[A-Z]+ (\S*)/.exec(text)?.[1]
  return (target !== undefined && target.length > limitBytes) || /^\S* HTTP\/1\.[01]\r\n/.test(text)
}

/** What a client is told whose bytes the parser refused. */
export function parserError(error: ParserError, limits: Pick<Config['limits'], 'urlBytes'>): ApiError {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return isUriTooLong(error.rawPacket, limits.urlBytes)
        ? new ApiError('uri_too_long', `the URL is longer than ${limits.urlBytes} bytes`)
        : new ApiError('headers_too_large', 'the headers are too large')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ApiError('request_timeout', 'the request did not arrive in time')
    default:
      return new ApiError('malformed_request', `this is no HTTP request: ${error.message}`)
  }
}

/** No proxy is here; RFC 9110, 15.5.6 wants to know what is. */
export const noProxy = new ApiError('method_not_allowed', 'this is no proxy: CONNECT is not offered', {
  headers: { Allow: 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT' },
})

/** Answers on a socket that no response object stands for, and ends the connection. */
export function answerRaw(socket: Duplex, error: ApiError, requestId: string = randomUUID()): void {
  socket.on('error', () => {})
  socket.end(rawError(error, requestId))
  socket.resume()
  setTimeout(() => socket.destroy(), LINGER_MS).unref()
}

/** Tells a client to come back; what it sent is not looked at. */
export function answerOverload(response: ServerResponse): void {
  const error = unavailable(undefined, 'too many requests are in flight here, please try again')
  const requestId = randomUUID()
  const body = errorBody(error, requestId)
  response.statusCode = error.status
  response.setHeaders(new Map(Object.entries(errorHeaders(error, body, requestId)))).end(body)
}
