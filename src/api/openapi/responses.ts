// Builds the responses of the document: successes from a schema and examples, failures from ApiErrors.
import { STATUS_CODES } from 'node:http'
import type { Config } from '../../config/config.ts'
import { ApiError, type ErrorCode, errorBody, MAX_FAULTS, unavailable } from '../../core/api-error.ts'
import { preconditionFailed } from '../requests/preconditions.ts'
import { object, ref, type Schema } from './json-schema.ts'
import type { Parameter } from './parameters.ts'

type Response = Readonly<Record<string, unknown>>
type Responses = Readonly<Record<string, Response>>

/** An OpenAPI operation object. */
export interface Operation {
  readonly operationId: string
  readonly tags: readonly [string]
  readonly summary: string
  readonly description?: string
  readonly parameters: readonly Parameter[]
  readonly requestBody?: Readonly<Record<string, unknown>>
  readonly responses: Responses
  /** The schemes and scopes, if the operation needs a caller. */
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
}

/** A route with its description in the document. */
export interface DescribedRoute {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** The path pattern, with parameters such as `:user_id`. */
  readonly path: string
  readonly operation: Operation
}

const text = { type: 'string' }

/** The response headers by name. */
export const headerComponents = {
  'Request-Id': {
    description: 'Identifies the request in the log: the `Request-Id` of the request, or a generated id.',
    required: true,
    schema: text,
  },
  Location: {
    description: 'The path of the created record.',
    schema: { type: 'string', format: 'uri-reference' },
  },
  ETag: { description: 'The version of the resource, for `If-None-Match` and `If-Match`.', schema: text },
  'Cache-Control': {
    description:
      '`no-cache`: caches must revalidate the response before each use. `no-store`: caches must not store the response.',
    schema: text,
  },
  'Idempotent-Replayed': {
    description:
      '`true` if this is the stored response to an earlier request with the same `Idempotency-Key`.',
    schema: { type: 'string', const: 'true' },
  },
  'Content-Security-Policy': {
    description: 'Limits the page to resources of this server.',
    schema: text,
  },
  Allow: { description: 'The methods that the path supports. Sent with status 405.', schema: text },
  'Retry-After': {
    description:
      'The number of seconds to wait before a retry. Sent with status 503 and with `request_in_progress`.',
    schema: { type: 'integer', minimum: 0 },
  },
}

const headers = (...names: readonly string[]) =>
  Object.fromEntries(['Request-Id', ...names].map(name => [name, { $ref: `#/components/headers/${name}` }]))

/** Examples by their display names. */
export type Examples = Readonly<Record<string, unknown>>

function examplesOf(examples: Examples) {
  const named = Object.entries(examples).map(([summary, value]) => [
    summary.replaceAll(/\W+/g, '_'),
    { summary, value },
  ])
  return Object.fromEntries(named)
}

/** @param types the media types, `application/json` by default */
export function json(schema: Schema, examples: Examples, ...types: string[]) {
  const content = { schema, examples: examplesOf(examples) }
  return Object.fromEntries((types.length === 0 ? ['application/json'] : types).map(type => [type, content]))
}

type Content = ReturnType<typeof json>

/** The response of status 200. @param names the headers that it can have, in addition to `Request-Id` */
export function success(description: string, content: Content, ...names: string[]): Responses {
  return { 200: { description, headers: headers(...names), content } }
}

/** The responses of status 200 and 304. @param others the headers in addition to those of all reads */
export function read(description: string, content: Content, ...others: string[]): Responses {
  const names = ['ETag', 'Cache-Control', ...others]
  return {
    ...success(description, content, ...names),
    304: { description: 'Not Modified: the `ETag` matches `If-None-Match`.', headers: headers(...names) },
  }
}

const REQUEST_ID = '5c9a1c5e-0b8f-4f0e-9d0a-6e1f5c6f2a11'

function failureSchema(statuses: readonly number[], codes: readonly ErrorCode[]): Schema {
  const meta = {
    status: { type: 'integer', enum: statuses },
    message: { type: 'string' },
    code: { type: 'string', enum: codes },
    request_id: { type: 'string' },
    errors: { type: 'array', minItems: 1, maxItems: MAX_FAULTS, items: ref('Fault') },
  }
  return object({ meta: object(meta, ['errors']) })
}

const unique = <T>(values: readonly T[]): T[] => [...new Set(values)]

function failure(description: string, errors: readonly ApiError[]): Response {
  const statuses = unique(errors.map(({ status }) => status))
  const codes = unique(errors.map(({ code }) => code))
  const examples = errors.map(error => [error.code, JSON.parse(errorBody(error, REQUEST_ID))])
  return {
    description,
    headers: headers('Cache-Control', ...unique(errors.flatMap(({ headers }) => Object.keys(headers)))),
    content: json(failureSchema(statuses, codes), Object.fromEntries(examples)),
  }
}

/** The error responses of an operation: one for each status, with the errors as its examples. */
export function failures(errors: readonly ApiError[]): Responses {
  const statuses = unique(errors.map(({ status }) => status))
  const responses = statuses.map(status => {
    const ofStatus = errors.filter(error => error.status === status)
    const codes = unique(ofStatus.map(({ code }) => `\`${code}\``)).join(', ')
    return [status, failure(`${STATUS_CODES[status]}: ${codes}.`, ofStatus)]
  })
  return { ...Object.fromEntries(responses), default: { $ref: '#/components/responses/Failure' } }
}

/** The response component `Failure`: the errors that do not depend on the operation. */
export function anyFailure(limits: Config['limits']): Response {
  const errors = [
    new ApiError('method_not_allowed', 'TRACE is not supported here; allowed: GET, HEAD, OPTIONS', {
      headers: { Allow: 'GET, HEAD, OPTIONS' },
    }),
    new ApiError('not_acceptable', 'the response is application/json, which the Accept header excludes'),
    new ApiError('request_timeout', 'the request did not arrive in time'),
    preconditionFailed('the resource'),
    new ApiError('uri_too_long', `the request target exceeds the limit of ${limits.urlBytes} bytes`),
    new ApiError('expectation_failed', 'Expect: the only supported expectation is 100-continue'),
    new ApiError('headers_too_large', `the headers exceed the limit of ${limits.headerBytes} bytes`),
    new ApiError('internal_error', 'an unexpected error occurred; see the service log for this request id'),
    unavailable(undefined),
  ]
  const listed = errors.map(({ status, code }) => `${status} \`${code}\``).join(', ')
  return failure(`Errors that any request can return: ${listed}.`, errors)
}
