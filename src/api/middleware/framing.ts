// Rejects requests that Node's parser accepts, but whose version, host, Transfer-Encoding or Expect header another
// recipient could read differently. This prevents request smuggling (RFC 9112).
import type { IncomingMessage } from 'node:http'
import type { Middleware } from 'koa'
import { ApiError } from '../../core/api-error.ts'
import { namedHost } from '../../core/known-hosts.ts'
import { versionNotSupported } from '../../listener/parser-errors.ts'
import { expectationFailed } from '../errors.ts'

/** A name or an address, with or without a port (RFC 3986, 3.2.2 and 3.2.3). */
const validHost = /^(?:\[[\w:.~!$&'()*+,;=-]+\]|(?:[\w.~!$&'()*+,;=-]|%[\dA-Fa-f]{2})*)(?::\d*)?$/

const malformed = (message: string, headers: Record<string, string> = {}) =>
  new ApiError('malformed_request', message, { headers })

function assertVersion({ httpVersion, httpVersionMajor }: IncomingMessage): void {
  if (httpVersionMajor !== 1) throw versionNotSupported(httpVersion)
}

/** `rawHeaders`, because `headers` keeps only the first Host, and `headersDistinct` converts all headers of each request. */
function hostsOf(rawHeaders: readonly string[]): string[] {
  const hosts: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'host') hosts.push(rawHeaders[at + 1] ?? '')
  }
  return hosts
}

/** Exactly one Host in HTTP/1.1 (RFC 9112, 3.2). That of a target in absolute form must be valid, too. */
function assertHost(request: IncomingMessage): void {
  const { rawHeaders, httpVersion } = request
  const hosts = hostsOf(rawHeaders)
  const [host = ''] = hosts
  if (hosts.length > 1 || (hosts.length === 0 && httpVersion === '1.1'))
    throw malformed(`the request has ${hosts.length} Host headers, exactly one is required`)
  if (!validHost.test(host)) throw malformed('Host: must be a name or an address, with or without a port')
  if (!validHost.test(namedHost(request) ?? ''))
    throw malformed('the host of the request target must be a name or an address, with or without a port')
}

/** The connection closes, because a proxy may disagree about where the body ends (RFC 9112, 6.1). */
function assertTransferEncoding({ headers, httpVersion }: IncomingMessage): void {
  const coding = headers['transfer-encoding']
  if (coding === undefined || (coding.toLowerCase() === 'chunked' && httpVersion === '1.1')) return
  const message = 'Transfer-Encoding: only chunked is supported, and only in HTTP/1.1'
  throw malformed(message, { Connection: 'close' })
}

/** RFC 9110, 10.1.1. */
function assertExpectation({ headers: { expect }, httpVersion }: IncomingMessage): void {
  if (expect !== undefined && httpVersion === '1.1' && expect.toLowerCase() !== '100-continue')
    throw expectationFailed()
}

/** Throws `malformed_request` or `expectation_failed`. */
export const framing: Middleware = ({ req }, next) => {
  assertVersion(req)
  assertHost(req)
  assertTransferEncoding(req)
  assertExpectation(req)
  return next()
}
