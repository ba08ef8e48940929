// Conditional requests (RFC 9110, section 13): compares the ETags in a request with the resource's current ETag.
import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '../../core/api-error.ts'
import { preconditionFailed } from '../errors.ts'

/** The ETags in a header, without their quotes. */
type Tags = '*' | readonly string[]

/** Returns whether an ETag, given without its quotes, is the current one. */
type IsCurrent = (opaque: string) => boolean

// Section 5.6.1: a list may have empty elements.
const list = /^[\t ,]*(?:(?:W\/)?"[!#-~\x80-\xff]*"[\t ]*(?:,[\t ,]*|$))*$/

function readTags(name: string, text: string | undefined, isStrong: boolean): Tags | undefined {
  if (text === undefined || text === '*') return text
  if (!list.test(text)) {
    const message = `${name}: must be * or a comma-separated list of ETags in quotes`
    throw new ApiError('malformed_request', message)
  }
  const tags = [...text.matchAll(/(W\/)?"([^"]*)"/g)]
  return tags.flatMap(([, weak, opaque = '']) => (isStrong && weak !== undefined ? [] : [opaque]))
}

/** If-Match compares strongly (8.8.3.2): a weak ETag never matches. */
const ifMatch = (headers: IncomingHttpHeaders) => readTags('If-Match', headers['if-match'], true)
const ifNoneMatch = (headers: IncomingHttpHeaders) =>
  readTags('If-None-Match', headers['if-none-match'], false)

const matches = (tags: Tags, isCurrent: IsCurrent) => tags === '*' || tags.some(opaque => isCurrent(opaque))

/**
 * Returns the precondition of a request that changes a resource (13.2.2), or undefined if it has none.
 * @throws ApiError `malformed_request`
 */
export function writeCondition(
  headers: IncomingHttpHeaders,
): ((isCurrent: IsCurrent) => boolean) | undefined {
  const [some, none] = [ifMatch(headers), ifNoneMatch(headers)]
  if (some === undefined && none === undefined) return undefined
  return isCurrent =>
    (some === undefined || matches(some, isCurrent)) && (none === undefined || !matches(none, isCurrent))
}

/**
 * Returns a check of the precondition of a request that changes a collection. The collection exists, but has no ETag of its
 * own: `*` matches, any other tag does not. The check throws ApiError `precondition_failed`.
 * @throws ApiError `malformed_request`
 */
export function collectionCondition(headers: IncomingHttpHeaders): () => void {
  const condition = writeCondition(headers)
  return () => {
    if (condition?.(() => false) === false)
      throw preconditionFailed('the collection', '* always matches it, and the ETag of a page never does')
  }
}

/**
 * Returns whether the client already has the version with this ETag (13.2.2).
 * @param etag the current one, without its quotes
 * @throws ApiError `precondition_failed` or `malformed_request`
 */
export function isUnmodified(headers: IncomingHttpHeaders, etag: string): boolean {
  const [some, none] = [ifMatch(headers), ifNoneMatch(headers)]
  const isCurrent: IsCurrent = opaque => opaque === etag
  if (some !== undefined && !matches(some, isCurrent)) throw preconditionFailed('the resource')
  return none !== undefined && matches(none, isCurrent)
}
