// Conditional requests (RFC 9110, section 13): what a client knows of a resource, held against what it is now.
import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '../../core/api-error.ts'

interface EntityTag {
  readonly weak: boolean
  /** What stands between the quotes. */
  readonly opaque: string
}

type Tags = '*' | readonly EntityTag[]

/** Whether an ETag, without its quotes, is that of the resource. */
type IsCurrent = (opaque: string) => boolean

// Section 5.6.1: a list may have empty elements.
const list = /^[\t ,]*(?:(?:W\/)?"[!#-~\x80-\xff]*"[\t ]*(?:,[\t ,]*|$))*$/

function readTags(name: string, text: string | undefined): Tags | undefined {
  if (text === undefined || text === '*') return text
  if (!list.test(text)) {
    const message = `${name}: must be * or ETags as they were sent, in their quotes, with commas between them`
    throw new ApiError('malformed_request', message)
  }
  return [...text.matchAll(/(W\/)?"([^"]*)"/g)].map(([, weak, opaque = '']) => ({
    weak: weak !== undefined,
    opaque,
  }))
}

const ifMatch = (headers: IncomingHttpHeaders) => readTags('If-Match', headers['if-match'])
const ifNoneMatch = (headers: IncomingHttpHeaders) => readTags('If-None-Match', headers['if-none-match'])

/** Strong comparison (8.8.3.2): a weak ETag is never the same. */
const matchesStrongly = (tags: Tags, isCurrent: IsCurrent) =>
  tags === '*' || tags.some(({ weak, opaque }) => !weak && isCurrent(opaque))

const matchesWeakly = (tags: Tags, isCurrent: IsCurrent) =>
  tags === '*' || tags.some(({ opaque }) => isCurrent(opaque))

export function preconditionFailed(what: string): ApiError {
  return new ApiError(
    'precondition_failed',
    `${what} is not as If-Match or If-None-Match says: read it again`,
  )
}

/**
 * What the request demands of the resource that it changes (13.2.2).
 * @returns undefined where it demands nothing
 * @throws ApiError `malformed_request`
 */
export function writeCondition(
  headers: IncomingHttpHeaders,
): ((isCurrent: IsCurrent) => boolean) | undefined {
  const [some, none] = [ifMatch(headers), ifNoneMatch(headers)]
  if (some === undefined && none === undefined) return undefined
  return isCurrent =>
    (some === undefined || matchesStrongly(some, isCurrent)) &&
    (none === undefined || !matchesWeakly(none, isCurrent))
}

/**
 * Whether the client that asks for the resource with this ETag has it already (13.2.2).
 * @param etag without its quotes
 * @throws ApiError `precondition_failed` or `malformed_request`
 */
export function isUnmodified(headers: IncomingHttpHeaders, etag: string): boolean {
  const [some, none] = [ifMatch(headers), ifNoneMatch(headers)]
  const isCurrent: IsCurrent = opaque => opaque === etag
  if (some !== undefined && !matchesStrongly(some, isCurrent)) throw preconditionFailed('this')
  return none !== undefined && matchesWeakly(none, isCurrent)
}
