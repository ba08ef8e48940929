// The Idempotency-Key of a request (draft-ietf-httpapi-idempotency-key-header).
import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '../../core/api-error.ts'

export const idempotencyKeyPattern = /^[!-~]{1,255}$/

/** Returns the key of a request, or undefined if it has none. @throws ApiError `malformed_request` */
export function idempotencyKeyOf(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['idempotency-key']
  if (key === undefined || (typeof key === 'string' && idempotencyKeyPattern.test(key))) return key
  throw new ApiError('malformed_request', 'Idempotency-Key: must be 1 to 255 visible ASCII characters')
}
