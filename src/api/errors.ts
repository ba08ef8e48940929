// The errors that the code throws and the OpenAPI document shows: both call the same function. Other errors have their functions
// where they are thrown, such as those of parameters and media types in their parsers (requests/).
import { ApiError } from '../core/api-error.ts'
import type { Resource } from '../model/resource.ts'

type Name = Pick<Resource, 'singular'>

export const notFound = ({ singular }: Name, id: string | number) =>
  new ApiError(`${singular}_not_found`, `there is no ${singular} with id ${id}`)

export const exists = ({ singular }: Name) => new ApiError(`${singular}_exists`, `${singular} already exists`)

/** The error of a membership that does not exist. @param other the id of the related record */
export const notMember = (resource: Name, id: number, to: Name, other: string | number) =>
  new ApiError('membership_not_found', `${resource.singular} ${id} is not in ${to.singular} ${other}`)

const readAgain = 'read it again; a weak ETag, which begins with W/, never matches in If-Match'

/**
 * The error of a request whose If-Match or If-None-Match does not hold (RFC 9110, 13.1).
 * @param what names the resource
 * @param hint says what to do
 */
export const preconditionFailed = (what: string, hint = readAgain) =>
  new ApiError('precondition_failed', `the If-Match or If-None-Match condition failed for ${what}; ${hint}`)

/** The error of a write to a record whose version does not meet the precondition. */
export const versionMismatch = ({ singular }: Name, id: number) =>
  preconditionFailed(`the ${singular} with id ${id}`)

/** The error of a page that would exceed `limits.responseBytes`. @param hint what makes it smaller */
export const pageTooLarge = (maxBytes: number, hint: string) =>
  ApiError.of({
    parameter: 'records_per_page',
    code: 'limit_exceeded',
    message: `records_per_page: the page would have more than ${maxBytes} bytes: ${hint}`,
  })

/** @param what names the body or its part */
export const notAnObject = (what: string) => new ApiError('invalid_body', `${what} must be an object`)

/** The error of a body that must be a batch. @param name the field of the batch */
export const invalidBatch = (name: string) =>
  ApiError.of({ field: name, code: 'invalid_batch', message: `${name}: is required: the records to change` })

/** @param reason the message of the parser, or what stands in the way of parsing */
export const notJson = (reason: string) => new ApiError('malformed_json', `the body is not JSON: ${reason}`)

export const bodyTooLarge = (maxBytes: number) =>
  new ApiError('content_too_large', `the body exceeds the limit of ${maxBytes} bytes`)

export const malformedPath = () => new ApiError('malformed_request', 'the path is not percent-encoded UTF-8')

/** @param allow the value of the header Allow, which a 405 must have (RFC 9110, 15.5.6) */
export const methodNotAllowed = (method: string, allow: string) =>
  new ApiError('method_not_allowed', `${method} is not supported here; allowed: ${allow}`, {
    headers: { Allow: allow },
  })

/** @param type the media type of the response */
export const notAcceptable = (type: string) =>
  new ApiError('not_acceptable', `the response is ${type}, which the Accept header excludes`)

export const expectationFailed = () =>
  new ApiError('expectation_failed', 'Expect: the only supported expectation is 100-continue')

/** The error of an exception that is not an ApiError. @param cause for the log; the client does not see it */
export const internalError = (cause?: unknown) =>
  new ApiError('internal_error', 'an unexpected error occurred; see the service log for this request id', {
    cause,
  })

/** The error of a position after which the change feed does not continue. */
export const changesExpired = (position: number): ApiError =>
  new ApiError(
    'changes_expired',
    `the feed does not continue from ${position}: it no longer has the next events, or they are of another database; ` +
      'ask for after=latest, copy the collections, then continue from there',
  )
