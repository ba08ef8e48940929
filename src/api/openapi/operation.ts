// Describes an operation by what is its own. The method implies the conditional headers, and the path parameter of a
// record implies the failures without this record.
import type { ApiError } from '../../core/api-error.ts'
import type { Resource } from '../../model/resource.ts'
import { parseNoQuery } from '../requests/query.ts'
import { keyFailures, missing, queryFailures, stale } from './examples.ts'
import { idempotencyKey, idParameter, ifMatch, ifNoneMatch, type Parameter } from './parameters.ts'
import { type Content, failureResponses, headersOf, type Responses } from './responses.ts'

/** The part of an OpenAPI operation object that is written as it is. */
interface Texts {
  readonly operationId: string
  readonly tags: readonly [string]
  readonly summary: string
  readonly description?: string
}

/** An OpenAPI operation object. */
interface Operation extends Texts {
  readonly parameters: readonly Parameter[]
  readonly requestBody?: { readonly required: true; readonly content: Content }
  readonly responses: Responses
  /** The schemes and scopes, if the operation needs a caller. */
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
}

/** A route with its description in the document. */
export interface DescribedRoute {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  readonly path: string
  readonly operation: Operation
}

interface Description extends Texts {
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
  method: DescribedRoute['method'],
  path: string,
  { target, parameters = [], invalidQuery, body, success, failures = [], ...texts }: Description,
): DescribedRoute {
  const [isRead, isPost] = [method === 'get', method === 'post']
  const targets = target === undefined ? [] : [target]
  const written = isRead ? [] : targets
  const [description, content, ...ownHeaders] = success
  const headers = headersOf(
    ...(isRead ? ['ETag', 'Cache-Control'] : []),
    ...ownHeaders,
    ...(isPost ? ['Idempotent-Replayed'] : []),
  )
  const errors = [
    ...(invalidQuery ?? queryFailures(parseNoQuery)),
    ...targets.map(missing),
    ...written.map(stale),
    ...failures,
    ...(isPost ? keyFailures : []),
  ]
  const operation = {
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
      ...failureResponses(errors),
    },
  }
  return { method, path, operation }
}
