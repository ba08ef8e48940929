// The errors that a client can receive: codes, statuses, and their JSON and HTTP representations.
import { STATUS_CODES } from 'node:http'
import { securityHeaders } from './response-headers.ts'

/** The HTTP status of each error code that does not contain a resource name. */
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
  unauthorized: 401,
  forbidden: 403,
  route_not_found: 404,
  method_not_allowed: 405,
  not_acceptable: 406,
  request_timeout: 408,
  request_in_progress: 409,
  changes_expired: 410,
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

/** A stable error code. Codes of a resource contain its name: `user_not_found`, `group_exists`. */
export type ErrorCode = keyof typeof statuses | `${string}_not_found` | `${string}_exists`

/** One of the validation errors of a request, with the body field or query parameter that it concerns. */
export type Fault = { readonly code: ErrorCode; readonly message: string } & (
  | { readonly field: string }
  | { readonly parameter: string }
)

/** Maximum number of faults that the error of a request lists. */
export const MAX_FAULTS = 100

function statusOf(code: ErrorCode): number {
  const listed: Readonly<Partial<Record<ErrorCode, number>>> = statuses
  return listed[code] ?? (code.endsWith('_not_found') ? 404 : 409)
}

/**
 * An error whose message is sent to the client. It is an `instanceof Error`, but is not created by Error's constructor,
 * which would capture a stack: the response does not contain it, and the capture costs a fifth of the CPU time of a 404.
 */
export class ApiError implements Error {
  readonly name = 'ApiError'
  readonly message: string
  readonly cause: unknown
  readonly code: ErrorCode
  readonly status: number
  readonly faults: readonly Fault[]
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: ErrorCode,
    message: string,
    details: { faults?: readonly Fault[]; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    this.message = message
    this.cause = details.cause
    this.code = code
    this.status = statusOf(code)
    this.faults = details.faults ?? []
    this.headers = details.headers ?? {}
  }

  /** The error of a request with one fault. */
  static of(fault: Fault): ApiError {
    return new ApiError(fault.code, fault.message, { faults: [fault] })
  }
}

Object.setPrototypeOf(ApiError.prototype, Error.prototype)

/** Creates a 503 error with `Retry-After`, for a database or a service that is unreachable or overloaded. */
export function unavailable(
  cause: unknown,
  message = 'the database is temporarily unavailable, please try again',
): ApiError {
  return new ApiError('unavailable', message, { headers: { 'Retry-After': '1' }, cause })
}

/** Collects the faults of a request, or of one entry of a batch. */
export class Faults {
  /** The first faults. */
  readonly listed: Fault[] = []
  private readonly max: number
  private count = 0

  /** @param max the number of faults that are listed; further ones are only counted */
  constructor(max = MAX_FAULTS) {
    this.max = max
  }

  /** @param create is not called for a fault that is not listed: one body can contain many thousands */
  add(create: () => Fault): void {
    this.count++
    if (this.count <= this.max) this.listed.push(create())
  }

  /** Returns one error with the code of the first fault and the messages of the listed ones; undefined without a fault. */
  error(): ApiError | undefined {
    const [first] = this.listed
    if (first === undefined) return undefined
    const messages = this.listed.map(fault => fault.message)
    if (this.count > this.max) messages.push(`and ${this.count - this.max} more`)
    return new ApiError(first.code, messages.join('; '), { faults: this.listed })
  }

  /** @throws ApiError that combines all faults, if there are any */
  throw(): void {
    const error = this.error()
    if (error !== undefined) throw error
  }
}

/** Returns the `meta` of an error, without `request_id`, which only a complete response has. */
export function errorMeta(error: ApiError, status = error.status) {
  const { message, code, faults } = error
  return { status, message, code, ...(faults.length > 0 && { errors: faults }) }
}

/** Returns the JSON body of an error response. */
export function errorBody(error: ApiError, requestId: string): string {
  const { status, message, code, errors } = errorMeta(error)
  return JSON.stringify({ meta: { status, message, code, request_id: requestId, errors } })
}

/** Returns a complete HTTP/1.1 response for a socket without a response object. It closes the connection. */
export function rawError(error: ApiError, requestId: string): string {
  const body = errorBody(error, requestId)
  const headers = {
    Date: new Date().toUTCString(),
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    'Request-Id': requestId,
    'Cache-Control': 'no-store',
    ...securityHeaders,
    ...error.headers,
    Connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n${lines.join('')}\r\n${body}`
}
