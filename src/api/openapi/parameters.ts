// The parameters as the document describes them, but for filters.
import type { Config } from '../../config/config.ts'
import { requestIdPattern } from '../../listener/request-identity.ts'
import { columnsOf, MAX_ID, type Resource } from '../../model/resource.ts'
import { unpagedRecords } from '../requests/query.ts'
import { saneKey } from '../resources/with-idempotency.ts'
import { idSchema, type Schema } from './json-schema.ts'

export interface Parameter {
  readonly name: string
  readonly in: 'query' | 'path' | 'header'
  readonly [keyword: string]: unknown
}

export const inQuery = (name: string, description: string, schema: Schema): Parameter => ({
  name,
  in: 'query',
  description,
  schema,
})

/** Values that stand in one parameter, between commas. */
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

const integer = (minimum: number, maximum: number, byDefault: number | undefined): Schema => ({
  type: 'integer',
  minimum,
  maximum,
  ...(byDefault !== undefined && { default: byDefault }),
})

/** @param unpaged how many records there are where the request does not say; undefined is all */
export function pagingParameters(limits: Config['limits'], unpaged?: number): Parameter[] {
  const unless = unpaged === undefined ? 'all unless it is given' : `${unpaged} unless it is given`
  const most = limits.recordsPerPage
  return [
    inQuery('start_index', 'Where the page begins, counted from 0.', integer(0, MAX_ID, 0)),
    inQuery('records_per_page', `How many records a page has: ${unless}.`, integer(1, most, unpaged)),
  ]
}

/** None for a resource that nothing can be included into. */
export function includeParameters({ singular, relation }: Resource): Parameter[] {
  if (relation === undefined) return []
  const description = `Embeds all ${relation.name} of the ${singular}, by ascending id, never only some.`
  return [listInQuery('include', description, { type: 'string', enum: [relation.name] }, [relation.name])]
}

/** Every parameter of a collection, but for its filters. */
export function collectionParameters(resource: Resource, limits: Config['limits']): Parameter[] {
  const keys = columnsOf(resource).flatMap(column => [column, `-${column}`])
  const description =
    'By code point, `-` for descending; missing values first when ascending. Ties by ascending id.'
  return [
    listInQuery('sort', description, { type: 'string', enum: keys }, keys.slice(-1)),
    ...includeParameters(resource),
    ...pagingParameters(limits, unpagedRecords(limits)),
  ]
}

/** The id of a record, as a part of the path. */
export const idParameter = (name: string, { singular }: Resource): Parameter => ({
  name,
  in: 'path',
  required: true,
  description: `The id of the ${singular}.`,
  schema: idSchema,
})

/** What every request may carry. */
export const requestIdParameter: Parameter = {
  name: 'Request-Id',
  in: 'header',
  description:
    'Comes back in the response and stands in the log; one is made where none, or no sane one, is sent.',
  schema: { type: 'string', pattern: requestIdPattern.source, examples: ['order-4711'] },
}

const etags = { type: 'string', examples: ['"1a"'] }

/** A read that need not be answered twice. */
export const ifNoneMatch: Parameter = {
  name: 'If-None-Match',
  in: 'header',
  description: 'The `ETag` of what was read before: where it is so still, the answer is 304 without a body.',
  schema: etags,
}

/** A write that must not undo another one. */
export const ifMatch: Parameter = {
  name: 'If-Match',
  in: 'header',
  description:
    'The `ETag` of what was read before: where it is so no longer, nothing changes and the answer is 412.',
  schema: etags,
}

/** A creation that is safe to repeat. */
export const idempotencyKey: Parameter = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'Names this request: sent again with the same key and body, it is answered as it was the first time, and done once.',
  schema: {
    type: 'string',
    pattern: saneKey.source,
    examples: ['8e03978e-40d5-43e8-bc93-6894a57f9324'],
  },
}
