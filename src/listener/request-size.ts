// The size of a request: its limits, and the memory that it takes while it waits for its turn.
import type { IncomingMessage } from 'node:http'
import type { Config } from '../config/config.ts'
import { headersTooLarge, targetTooLong } from './parser-errors.ts'

export type RequestLimits = Pick<Config['limits'], 'urlBytes' | 'headerBytes' | 'headers'>

// A request with its response takes 1,550 bytes of the heap with Node.js 20, and each header 130 bytes in addition to its
// text.
const REQUEST_BYTES = 2048
const NAME_OR_VALUE_BYTES = 64
/** Node.js reads about as much of a body before it is consumed. */
const MAX_BUFFERED_BODY_BYTES = 65_536

/**
 * The number of headers, or of trailers, up to which Node.js keeps them. Beyond it, Node.js 20 drops them, and later versions call them too large. It is
 * higher than the limit of the application, which rejects such a request with the address that proxies have added to the headers.
 */
export const maxParsedHeaders = ({ headers }: Pick<RequestLimits, 'headers'>): number => 10 * headers

/** Returns whether Node.js has dropped no headers of a request. */
export const hasAllHeaders = ({ rawHeaders }: IncomingMessage, limits: RequestLimits): boolean =>
  rawHeaders.length < 2 * maxParsedHeaders(limits)

/** The size of the header lines in bytes. Each line also has `: ` and CRLF: two bytes per name and two per value. */
function headerBytes(rawHeaders: readonly string[]): number {
  let bytes = 2 * rawHeaders.length
  for (const nameOrValue of rawHeaders) bytes += nameOrValue.length
  return bytes
}

function bufferedBodyBytes({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return MAX_BUFFERED_BODY_BYTES
  return Math.min(Number(headers['content-length'] ?? 0), MAX_BUFFERED_BODY_BYTES)
}

/** Returns `uri_too_long` or `headers_too_large` if the request exceeds the limits. The parser has higher ones of its own. */
export function sizeError({ url = '', rawHeaders }: IncomingMessage, limits: RequestLimits) {
  if (url.length > limits.urlBytes) return targetTooLong(limits)
  const isTooLarge = headerBytes(rawHeaders) > limits.headerBytes || rawHeaders.length > 2 * limits.headers
  return isTooLarge ? headersTooLarge(limits) : undefined
}

/** Returns an estimate of the memory that `request` takes before it is served, in bytes. */
export function waitingSize(request: IncomingMessage): number {
  const { url = '', rawHeaders } = request
  const textBytes = url.length + headerBytes(rawHeaders)
  return REQUEST_BYTES + NAME_OR_VALUE_BYTES * rawHeaders.length + textBytes + bufferedBodyBytes(request)
}
