// Every failure a client can see: its code, its status, and the one way it is written down.
import { STATUS_CODES } from 'node:http'
import { securityHeaders } from './response-headers.ts'

/** The status of each failure that does not name a resource. */
export const statuses = {
  malformed_request: 400,
  malformed_json: 400,
  invalid_body: 400,
  missing_field: 400,
  invalid_field: 400,
  unknown_field: 400,
  invalid_parameter: 400,
  unknown_parameter: 400,
  id_mismatch: 400,
  invalid_batch: 400,
  limit_exceeded: 400,
  route_not_found: 404,
  method_not_allowed: 405,
  not_acceptable: 406,
  request_timeout: 408,
  request_in_progress: 409,
  precondition_failed: 412,
  content_too_large: 413,
  uri_too_long: 414,
  unsupported_media_type: 415,
  expectation_failed: 417,
  idempotency_key_reused: 422,
  headers_too_large: 431,
  internal_error: 500,
  unavailable: 503,
} as const

/** A stable name of a failure; those of a resource carry its name: `user_not_found`, `group_exists`. */
export type ErrorCode = keyof typeof statuses | `${string}_not_found` | `${string}_exists`

/** One fault of a request, of several that are reported together, and where it is. */
export type Fault = { readonly code: ErrorCode; readonly message: string } & (
  | { readonly field: string }
  | { readonly parameter: string }
)

/** How many faults of a request are listed: a body has room for very many. */
export const MAX_FAULTS = 100

/** How many code points are repeated of a name that a client has made up. */
const MAX_NAME_CODE_POINTS = 100

/** `name` as it stands in a fault: one that is too long to be a mistake loses its end. */
export function shortened(name: string): string {
  if (name.length <= MAX_NAME_CODE_POINTS) return name
  // A code point has two units at most.
  const points = [...name.slice(0, 2 * MAX_NAME_CODE_POINTS + 1)]
  return points.length > MAX_NAME_CODE_POINTS ? `${points.slice(0, MAX_NAME_CODE_POINTS).join('')}…` : name
}

function isListed(code: ErrorCode): code is keyof typeof statuses {
  return Object.hasOwn(statuses, code)
}

function statusOf(code: ErrorCode): number {
  if (isListed(code)) return statuses[code]
  return code.endsWith('_not_found') ? 404 : 409
}

/** A failure whose message the client may read. */
export class ApiError extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly faults: readonly Fault[]
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: ErrorCode,
    message: string,
    details: { faults?: readonly Fault[]; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(message, { cause: details.cause })
    this.name = 'ApiError'
    this.code = code
    this.status = statusOf(code)
    this.faults = details.faults ?? []
    this.headers = details.headers ?? {}
  }

  /** `faults` as one error: it has the first one's code and every message, of `most` of them. */
  static of(faults: readonly [Fault, ...Fault[]], most = MAX_FAULTS): ApiError {
    const listed = faults.slice(0, most)
    const messages = listed.map(fault => fault.message)
    if (faults.length > most) messages.push(`and ${faults.length - most} more`)
    return new ApiError(faults[0].code, messages.join('; '), { faults: listed })
  }
}

/** The client should come back: the database cannot be reached, or is overloaded. */
export function unavailable(
  cause: unknown,
  message = 'the service cannot reach its database at the moment, please try again',
): ApiError {
  return new ApiError('unavailable', message, { headers: { 'Retry-After': '1' }, cause })
}

/** Throws all `faults` as one error, if there are any. */
export function throwFaults(faults: readonly Fault[]): void {
  const [first, ...rest] = faults
  if (first !== undefined) throw ApiError.of([first, ...rest])
}

/** The `meta` of a failure, without what only a whole response has. */
export function errorMeta(error: ApiError, status = error.status) {
  const { message, code, faults } = error
  return { status, message, code, ...(faults.length > 0 && { errors: faults }) }
}

/** The JSON text that answers a failed request. */
export function errorBody(error: ApiError, requestId: string): string {
  const { status, message, code, errors } = errorMeta(error)
  return JSON.stringify({ meta: { status, message, code, request_id: requestId, errors } })
}

/** The headers of a failure that is written without Koa. */
export function errorHeaders(error: ApiError, body: string, requestId: string): Record<string, string> {
  return {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(body)),
    'Request-Id': requestId,
    'Cache-Control': 'no-store',
    ...securityHeaders,
    ...error.headers,
  }
}

/** A whole HTTP/1.1 response, for a socket that no response object stands for. The connection ends with it. */
export function rawError(error: ApiError, requestId: string): string {
  const body = errorBody(error, requestId)
  const headers = { ...errorHeaders(error, body, requestId), Connection: 'close' }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n${lines.join('')}\r\n${body}`
}
