// Describes an operation by what is its own. The method implies the conditional headers, and the path parameter of a
// record implies the failures without this record. The failures become responses with examples.
import { STATUS_CODES } from 'node:http'
import type { Config } from '../../config/config.ts'
import { type ApiError, errorBody, MAX_FAULTS, unavailable } from '../../core/api-error.ts'
import { headersTooLarge, requestTimeout, targetTooLong } from '../../listener/parser-errors.ts'
import type { Resource } from '../../model/resource.ts'
import {
  expectationFailed,
  internalError,
  methodNotAllowed,
  notAcceptable,
  preconditionFailed,
} from '../errors.ts'
import { parseNoQuery } from '../requests/parameters.ts'
import { keyFailures, mismatch, missing, queryFailures } from './examples.ts'
import { capitalize, integer, object, ref, type Schema, text } from './json-schema.ts'
import { idempotencyKey, idParameter, ifMatch, ifNoneMatch, type Parameter } from './parameters.ts'

type Response = Readonly<Record<string, unknown>>

/** The responses of an operation by status. */
type Responses = Readonly<Record<string, Response>>

export const header = (description: string, schema = text) => ({ description, schema })

export const headerComponents = {
  'Request-Id': {
    description: 'Identifies the request in the log: the `Request-Id` of the request, or a generated id.',
    required: true,
    schema: text,
  },
  Location: header('The path of the created record.', { type: 'string', format: 'uri-reference' }),
  ETag: header('The version of the resource, for `If-None-Match` and `If-Match`.'),
  'Cache-Control': header(
    '`no-cache`: caches must revalidate the response before each use. `private`: shared caches must not store the response. `no-store`: no cache may store the response.',
  ),
  'Idempotent-Replayed': header(
    '`true` if this is the stored response to an earlier request with the same `Idempotency-Key`.',
    { type: 'string', const: 'true' },
  ),
  'Content-Security-Policy': header('Limits the page to resources of this server.'),
  Allow: header('The methods that the path supports. Sent with status 405.'),
  'Accept-Encoding': header('`identity`: the body must not be compressed. Sent with status 415.'),
  'Accept-Patch': header('The media types that the method takes. Sent with status 415.'),
  'Retry-After': header(
    'The number of seconds to wait before a retry. Sent with status 503 and with `request_in_progress`.',
    integer(0),
  ),
}

/** The headers of a response that has `Request-Id` and these headers. */
const headersOf = (...names: readonly string[]) =>
  Object.fromEntries(['Request-Id', ...names].map(name => [name, { $ref: `#/components/headers/${name}` }]))

/** @param examples by their display names */
export function json(
  schema: Schema,
  examples: Readonly<Record<string, unknown>> = {},
  types: readonly string[] = ['application/json'],
) {
  const named = Object.fromEntries(
    Object.entries(examples).map(([summary, value]) => [summary.replaceAll(/\W+/g, '_'), { summary, value }]),
  )
  return Object.fromEntries(types.map(type => [type, { schema, examples: named }]))
}

type Content = ReturnType<typeof json>

const REQUEST_ID = '5c9a1c5e-0b8f-4f0e-9d0a-6e1f5c6f2a11'

const unique = <T>(values: readonly T[]): T[] => [...new Set(values)]

/** @param headers the names of headers that the errors themselves do not have */
function failure(description: string, errors: readonly ApiError[], ...headers: string[]): Response {
  const meta = object({
    status: { type: 'integer', enum: unique(errors.map(({ status }) => status)) },
    message: text,
    code: { type: 'string', enum: unique(errors.map(({ code }) => code)) },
    request_id: text,
    'errors?': { type: 'array', minItems: 1, maxItems: MAX_FAULTS, items: ref('Fault') },
  })
  const examples = Object.fromEntries(
    errors.map((error): [string, unknown] => [error.code, JSON.parse(errorBody(error, REQUEST_ID))]),
  )
  return {
    description,
    headers: headersOf(
      'Cache-Control',
      ...headers,
      ...unique(errors.flatMap(error => Object.keys(error.headers))),
    ),
    content: json(object({ meta }), examples),
  }
}

/** The error responses of an operation: one for each status, with the errors as its examples. @param headers as of `failure` */
export function failureResponses(errors: readonly ApiError[], ...headers: string[]): Responses {
  const statuses = unique(errors.map(({ status }) => status))
  const responses = statuses.map((status): [number, Response] => {
    const ofStatus = errors.filter(error => error.status === status)
    const codes = unique(ofStatus.map(({ code }) => `\`${code}\``)).join(', ')
    return [status, failure(`${STATUS_CODES[status]}: ${codes}.`, ofStatus, ...headers)]
  })
  return { ...Object.fromEntries(responses), default: { $ref: '#/components/responses/Failure' } }
}

/** The response component `Failure`: the errors that do not depend on the operation. */
export function anyFailure(limits: Config['limits']): Response {
  const errors = [
    methodNotAllowed('TRACE', 'GET, HEAD, OPTIONS'),
    notAcceptable('application/json'),
    requestTimeout(),
    preconditionFailed('the resource'),
    targetTooLong(limits),
    expectationFailed(),
    headersTooLarge(limits),
    internalError(),
    unavailable(undefined),
  ]
  const listed = errors.map(({ status, code }) => `${status} \`${code}\``).join(', ')
  return failure(`Errors that any request can return: ${listed}.`, errors)
}

interface Description {
  readonly operationId: string
  /** By default, what follows `/v1/` in the path. */
  readonly tag?: string
  readonly summary: string
  readonly description: string
  /** The resource of the first id in the path. */
  readonly target?: Resource
  /** The parameters in the path and in the query, except for the first id. */
  readonly parameters?: readonly Parameter[]
  /** The failures of the query string; by default those of an operation without query parameters. */
  readonly invalidQuery?: readonly ApiError[]
  readonly body?: Content
  /** The response of status 200, with the headers that its method does not imply. */
  readonly success: readonly [description: string, content: Content, ...headers: string[]]
  /** The failures of the body, and of all records except for the target. */
  readonly failures?: readonly ApiError[]
}

/** Describes a route. @param path the path pattern, with parameters such as `:user_id` */
export function describe(
  method: 'get' | 'post' | 'put' | 'patch' | 'delete',
  path: string,
  { tag, target, parameters = [], invalidQuery, body, success, failures = [], ...texts }: Description,
) {
  const [isRead, isPost] = [method === 'get', method === 'post']
  const targets = target === undefined ? [] : [target]
  const written = isRead ? [] : targets
  const [description, content, ...ownHeaders] = success
  const replayed = isPost ? ['Idempotent-Replayed'] : []
  const headers = headersOf(...(isRead ? ['ETag', 'Cache-Control'] : []), ...ownHeaders, ...replayed)
  const errors = [
    ...(invalidQuery ?? queryFailures(parseNoQuery)),
    ...targets.map(missing),
    ...written.map(mismatch),
    ...failures,
    ...(isPost ? keyFailures : []),
  ]
  const operation = {
    tags: [tag ?? capitalize(path.split('/')[2] ?? '')],
    ...texts,
    parameters: [
      ...targets.map(idParameter),
      ...parameters,
      ...(isRead ? [ifNoneMatch] : []),
      ...written.map(() => ifMatch),
      ...(isPost ? [idempotencyKey] : []),
    ],
    ...(body && { requestBody: { required: true, content: body } as const }),
    responses: {
      200: { description, headers, content },
      ...(isRead && { 304: { description: 'Not Modified: the `ETag` matches `If-None-Match`.', headers } }),
      ...failureResponses(errors, ...replayed),
    },
  }
  return { method, path, operation }
}

/** A route with its description in the document. */
export type DescribedRoute = Readonly<ReturnType<typeof describe>>
