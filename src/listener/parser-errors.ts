// Error responses to requests that the parser does not accept: invalid HTTP, too large requests and CONNECT.
import type { Socket } from 'node:net'
import type { Config } from '../config/config.ts'
import { ApiError, rawError } from '../core/api-error.ts'
import { linger } from './linger.ts'
import { parseProxyHeader } from './proxy-header.ts'

type Limits = Pick<Config['limits'], 'urlBytes' | 'headerBytes' | 'headers'>

export interface ParserError extends Error {
  readonly code?: string
  /** The bytes that were being parsed; undefined for a timeout. */
  readonly rawPacket?: Buffer
}

/**
 * Returns whether the request line caused the overflow: it starts in `packet` and its target is too long, or it
 * ends in `packet`. A packet is smaller than the parser's limit, so in the second case all bytes before `packet`
 * belong to the request line.
 */
function isUriTooLong(packet: Buffer | undefined, limitBytes: number): boolean {
  const text = packet?.toString('latin1') ?? ''
  const target = /^[A-Z]+ (\S*)/.exec(text)?.[1]
  return (target !== undefined && target.length > limitBytes) || /^\S* HTTP\/1\.[01]\r\n/.test(text)
}

/** Whether a request did not arrive in time. */
export const isTimeout = ({ code }: ParserError) => code === 'ERR_HTTP_REQUEST_TIMEOUT'

/** Whether the client has sent an invalid TLS record. Nothing can be sent after it, except to a client that does not use TLS. */
export const isTlsError = ({ code = '' }: ParserError) => code.startsWith('ERR_SSL_')

/** Whether the beginning of a TLS connection is a request without TLS. OpenSSL 3.0 recognizes only GET, HEAD, POST and PUT. */
export const isPlainRequest = ({ code }: ParserError) => code === 'ERR_SSL_HTTP_REQUEST'

export const plainRequest = () =>
  new ApiError('malformed_request', 'the request is plain HTTP, and this port serves HTTPS: use https://')

export const requestTimeout = () => new ApiError('request_timeout', 'the request did not arrive in time')

/** @param version that of the request, such as `2.0` */
export const versionNotSupported = (version: string) =>
  new ApiError('malformed_request', `HTTP/${version} is not supported; allowed: HTTP/1.0 and HTTP/1.1`)

export const targetTooLong = ({ urlBytes }: Pick<Limits, 'urlBytes'>) =>
  new ApiError('uri_too_long', `the request target exceeds the limit of ${urlBytes} bytes`)

export const headersTooLarge = ({ headerBytes, headers }: Pick<Limits, 'headerBytes' | 'headers'>) =>
  new ApiError(
    'headers_too_large',
    `the headers exceed the limit of ${headerBytes} bytes or ${headers} headers`,
  )

/** Returns the error response to a `clientError` event of `http.Server`. */
export function parserError(error: ParserError, limits: Limits): ApiError {
  if (isTimeout(error)) return requestTimeout()
  // The preface of a client that speaks HTTP/2 without asking for it first (RFC 9113, 3.3).
  if (error.code === 'HPE_PAUSED_H2_UPGRADE') return versionNotSupported('2.0')
  // A space in the target ends it, so that the parser reads the rest as the version.
  if (error.code === 'HPE_INVALID_URL' || error.code === 'HPE_INVALID_CONSTANT')
    return new ApiError(
      'malformed_request',
      `the request line is not valid (${error.message}): percent-encode spaces and characters outside ASCII`,
    )
  if (error.rawPacket !== undefined && typeof parseProxyHeader(error.rawPacket) === 'object')
    return new ApiError(
      'malformed_request',
      'the input is a PROXY header, which is not expected here: see the setting proxyProtocol of the port',
    )
  if (error.code !== 'HPE_HEADER_OVERFLOW')
    return new ApiError('malformed_request', `the request is not valid HTTP: ${error.message}`)
  return isUriTooLong(error.rawPacket, limits.urlBytes) ? targetTooLong(limits) : headersTooLarge(limits)
}

/**
 * Sends an error on a socket that has no response object, and ends the connection.
 * @param method the response to HEAD has no body
 */
export function answerRaw(socket: Socket, error: ApiError, requestId: string, method?: string): void {
  const text = rawError(error, requestId)
  socket.write(method === 'HEAD' ? text.slice(0, text.indexOf('\r\n\r\n') + 4) : text)
  linger(socket)
}
