// Responses as the document describes them: a success by its schema, failures by examples of what is thrown.

import { STATUS_CODES } from 'node:http'
import type { Config } from '../../config/config.ts'
import { ApiError, type ErrorCode, errorBody, MAX_FAULTS, unavailable } from '../../core/api-error.ts'
import { preconditionFailed } from '../requests/preconditions.ts'
import { object, ref, type Schema } from './json-schema.ts'
import type { Parameter } from './parameters.ts'

type Response = Readonly<Record<string, unknown>>
type Responses = Readonly<Record<string, Response>>

/** An operation object of OpenAPI. */
export interface Operation {
  readonly operationId: string
  readonly tags: readonly [string]
  readonly summary: string
  readonly description?: string
  readonly parameters: readonly Parameter[]
  readonly requestBody?: Readonly<Record<string, unknown>>
  readonly responses: Responses
}

const text = { type: 'string' }

/** The headers of responses, by their names. */
export const headerComponents = {
  'Request-Id': {
    description: 'Names the request in the log: what the client sent as `Request-Id`, or a new one.',
    required: true,
    schema: text,
  },
  Location: {
    description: 'The path of the one that was created.',
    schema: { type: 'string', format: 'uri-reference' },
  },
  ETag: { description: 'Names this version, for `If-None-Match` and `If-Match`.', schema: text },
  'Cache-Control': {
    description:
      '`no-cache`: it may be kept, but is to be asked for each time; `no-store`: it is not to be kept.',
    schema: text,
  },
  'Idempotent-Replayed': {
    description: '`true` where this is the first answer to the `Idempotency-Key` again.',
    schema: { type: 'string', const: 'true' },
  },
  'Content-Security-Policy': {
    description: 'Lets the page load and ask nothing but what this server has.',
    schema: text,
  },
  Allow: { description: 'With status 405: the methods of the path.', schema: text },
  'Retry-After': {
    description: 'How many seconds to wait before another try, with status 503 and `request_in_progress`.',
    schema: { type: 'integer', minimum: 0 },
  },
}

const headers = (...names: readonly string[]) =>
  Object.fromEntries(['Request-Id', ...names].map(name => [name, { $ref: `#/components/headers/${name}` }]))

/** Examples by their names for people. */
export type Examples = Readonly<Record<string, unknown>>

function examplesOf(examples: Examples) {
  const named = Object.entries(examples).map(([summary, value]) => [
    summary.replaceAll(/\W+/g, '_'),
    { summary, value },
  ])
  return Object.fromEntries(named)
}

/** JSON under one or more media types. */
export function json(schema: Schema, examples: Examples, ...types: string[]) {
  const content = { schema, examples: examplesOf(examples) }
  return Object.fromEntries((types.length === 0 ? ['application/json'] : types).map(type => [type, content]))
}

type Content = ReturnType<typeof json>

/** The answer to a request that did what it was for. */
export function success(description: string, content: Content, ...named: string[]): Responses {
  return { 200: { description, headers: headers(...named), content } }
}

/** The answers to a read: what there is, or that the client has it already. */
export function read(description: string, content: Content, ...others: string[]): Responses {
  const named = ['ETag', 'Cache-Control', ...others]
  return {
    ...success(description, content, ...named),
    304: { description: 'It is as `If-None-Match` says.', headers: headers(...named) },
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

/** What can go wrong with one operation: a response for each status, with these as its examples. */
export function failures(errors: readonly ApiError[]): Responses {
  const statuses = unique(errors.map(({ status }) => status))
  const responses = statuses.map(status => {
    const those = errors.filter(error => error.status === status)
    const codes = unique(those.map(({ code }) => `\`${code}\``)).join(', ')
    return [status, failure(`${STATUS_CODES[status]}: ${codes}.`, those)]
  })
  return { ...Object.fromEntries(responses), default: { $ref: '#/components/responses/Failure' } }
}

/** The response called `Failure`: what can go wrong with any request at all. */
export function anyFailure(limits: Config['limits']): Response {
  const errors = [
    new ApiError('method_not_allowed', 'TRACE is not possible here: allowed are GET, HEAD, OPTIONS', {
      headers: { Allow: 'GET, HEAD, OPTIONS' },
    }),
    new ApiError('not_acceptable', 'the answer is application/json, which the Accept header rules out'),
    new ApiError('request_timeout', 'the request did not arrive in time'),
    preconditionFailed('this'),
    new ApiError('uri_too_long', `the request target is over the limit of ${limits.urlBytes} bytes`),
    new ApiError('expectation_failed', 'the only known expectation is 100-continue'),
    new ApiError('headers_too_large', `the headers are over the limit of ${limits.headerBytes} bytes`),
    new ApiError('internal_error', 'something went wrong here, the request id leads to its log line'),
    unavailable(undefined),
  ]
  const listed = errors.map(({ status, code }) => `${status} \`${code}\``).join(', ')
  return failure(`What can happen to any request: ${listed}.`, errors)
}
