// Describes the parameters of operations, except for those of collections alone (collection-parameters.ts).
import type { Config } from '../../config/config.ts'
import { requestIdPattern } from '../../listener/request-identity.ts'
import { limitedRelations, MAX_ID, type Resource } from '../../model/resource.ts'
import { idName } from '../resources/handler.ts'
import { idempotencyKeyPattern } from '../resources/with-idempotency.ts'
import { idSchema, integer, type Schema } from './json-schema.ts'

export interface Parameter {
  readonly name: string
  readonly in: 'query' | 'path' | 'header'
  readonly [keyword: string]: unknown
}

const parameterIn =
  (place: Parameter['in']) =>
  (name: string, description: string, schema: Schema): Parameter => ({
    name,
    in: place,
    ...(place === 'path' && { required: true }),
    description,
    schema,
  })

export const inQuery = parameterIn('query')
export const inPath = parameterIn('path')
const inHeader = parameterIn('header')

/** A query parameter with a comma-separated list of values. */
export const listInQuery = (
  name: string,
  description: string,
  items: Schema,
  example: unknown[],
): Parameter => ({
  ...inQuery(name, description, { type: 'array', items, examples: [example] }),
  style: 'form',
  explode: false,
})

/** @param unpaged the default of `records_per_page`; undefined if the default is all records */
export const pagingParameters = ({ recordsPerPage }: Config['limits'], unpaged?: number): Parameter[] => [
  inQuery('start_index', 'The index of the first record of the page, counted from 0.', {
    ...integer(0, MAX_ID),
    default: 0,
  }),
  inQuery(
    'records_per_page',
    `The maximum number of records in the page. The default is ${unpaged ?? 'all records'}.`,
    { ...integer(1, recordsPerPage), default: unpaged },
  ),
]

/** Returns the `include` parameter, or no parameter if the resource has no relation to include. */
export function includeParameters(resource: Resource): Parameter[] {
  const names = limitedRelations(resource).map(({ name }) => name)
  if (names.length === 0) return []
  const list = new Intl.ListFormat('en').format(names)
  const description = `Embeds all ${list} of the ${resource.singular}, by ascending id.`
  return [listInQuery('include', description, { type: 'string', enum: names }, names)]
}

/** The path parameter with the id of a record. */
export const idParameter = (resource: Resource): Parameter =>
  inPath(idName(resource), `The id of the ${resource.singular}.`, idSchema)

/** The parameter of all operations. */
export const requestIdParameter = inHeader(
  'Request-Id',
  'An id for the request. The response and the log repeat it. If it is missing or does not match the pattern, the server generates an id.',
  { type: 'string', pattern: requestIdPattern.source, examples: ['order-4711'] },
)

const etags = { type: 'string', examples: ['"1a"'] }

/** The parameter of all reads. */
export const ifNoneMatch = inHeader(
  'If-None-Match',
  'The `ETag` of an earlier response. If it still matches, the response is 304 without a body.',
  etags,
)

/** The parameter of all writes to an existing record. It prevents lost updates. */
export const ifMatch = inHeader(
  'If-Match',
  'The `ETag` of an earlier response. If it no longer matches, the response is 412 and nothing changes.',
  etags,
)

/** The parameter of all POST operations. It makes retries safe. */
export const idempotencyKey = inHeader(
  'Idempotency-Key',
  'A unique key for the request. If the request is repeated with the same key, the server returns the first response and does not execute the request again. A request with the same key but another path or body returns 422. Use a key for each request that must not be executed twice. If the message of a 503 says that the outcome is unknown, you can safely repeat the request with the same key.',
  {
    type: 'string',
    pattern: idempotencyKeyPattern.source,
    examples: ['8e03978e-40d5-43e8-bc93-6894a57f9324'],
  },
)
