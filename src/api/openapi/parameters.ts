// Describes the parameters of operations. The names of filters come from their parser.
import type { Config } from '../../config/config.ts'
import { requestIdPattern } from '../../listener/request-identity.ts'
import { columnsOf, idName, MAX_ID, type Resource } from '../../model/resource.ts'
import { type FilterTarget, filtersOf } from '../requests/filters.ts'
import { idempotencyKeyPattern } from '../requests/idempotency-key.ts'
import { defaultRecordsPerPage, MAX_SEARCH_WORDS } from '../requests/query.ts'
import { capitalize, idSchema, integer, type Schema } from './json-schema.ts'

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

/** An id in a list. It has no format, because swagger-ui has no input for lists of int64. */
const idItem: Schema = { type: 'integer', minimum: 1, maximum: MAX_ID }

export const inQuery = parameterIn('query')
export const inPath = parameterIn('path')
export const inHeader = parameterIn('header')

/** A query parameter with a list. It can be repeated. */
const listInQuery = (name: string, description: string, list: Schema): Parameter => ({
  ...inQuery(name, description, { type: 'array', ...list }),
  style: 'form',
  explode: true,
})

/** A query parameter with a comma-separated list of names, none of them repeated. */
export const namesInQuery = (
  name: string,
  description: string,
  names: readonly string[],
  example: unknown,
): Parameter => ({
  ...listInQuery(name, description, {
    items: { type: 'string', enum: names },
    uniqueItems: true,
    examples: [example],
  }),
  explode: false,
})

/**
 * @param maxRecords the maximum of `records_per_page`
 * @param defaultRecords the default; undefined: all records
 */
export const pagingParameters = (maxRecords: number, defaultRecords?: number): Parameter[] => [
  inQuery('start_index', 'The index of the first record of the page, counted from 0.', {
    ...integer(0, MAX_ID),
    default: 0,
  }),
  inQuery(
    'records_per_page',
    `The maximum number of records in the page. The default is ${defaultRecords ?? 'all records'}.`,
    { ...integer(1, maxRecords), default: defaultRecords },
  ),
]

/** Returns the `include` parameter, or no parameter if the resource has no relation to include. */
export function includeParameters(resource: Resource): Parameter[] {
  const names = resource.relations.map(({ name }) => name)
  if (names.length === 0) return []
  const list = new Intl.ListFormat('en').format(names)
  const description = `Embeds all ${list} of the ${resource.singular}, by ascending id.`
  return [namesInQuery('include', description, names, names)]
}

/** The path parameter with the id of a record. */
export const idParameter = (resource: Resource): Parameter =>
  inPath(idName(resource), `The id of the ${resource.singular}.`, { ...idSchema, examples: [1] })

/** The parameters of a DELETE of several records. One of them is required. */
export const idsParameters = (description: string): Parameter[] => [
  listInQuery('id[in]', `${description} Commas separate them, and the parameter can be repeated.`, {
    items: idItem,
    examples: [[1, 2]],
  }),
  inQuery('id', 'A single id, instead of the list.', { ...idSchema, examples: [1] }),
]

/** The parameter of all operations. */
export const requestIdParameter = inHeader(
  'Request-Id',
  'An id for the request. The response and the log repeat it. If it is missing or does not match the pattern, the server generates an id.',
  { type: 'string', pattern: requestIdPattern.source, examples: ['order-4711'] },
)

/** The parameter of all reads. */
export const ifNoneMatch = inHeader(
  'If-None-Match',
  'The `ETag` of an earlier response. If it still matches, the response is 304 without a body.',
  { type: 'string', examples: ['"1a"'] },
)

/** The parameter of all writes to an existing record. It prevents lost updates. */
export const ifMatch = inHeader(
  'If-Match',
  'The `ETag` of an earlier response. If it no longer matches, the response is 412 and nothing changes. `*` matches every version.',
  { type: 'string', examples: ['*', '"1a"'] },
)

/**
 * The parameter of all POST operations. It makes retries safe. A client that sends examples must not send the same key twice:
 * several clients replace `{{$guid}}`, among them Postman, Bruno and the REST Client of VS Code.
 */
export const idempotencyKey = inHeader(
  'Idempotency-Key',
  'A unique key for the request, such as a new UUID. If the request is repeated with the same key, the server returns the first response and does not execute the request again. A request with the same key but another path or body returns 422. Use a key for each request that must not be executed twice. If the message of a 503 says that the outcome is unknown, you can safely repeat the request with the same key.',
  {
    type: 'string',
    pattern: idempotencyKeyPattern.source,
    examples: ['{{$guid}}'],
  },
)

/** The operand of an operator for one kind of field. */
interface Operand {
  readonly schema: Schema
  /** @param value an example value of the field */
  readonly examples: (value: string) => unknown[]
}

interface Operator {
  /** A predicate; its subject is the filtered field. */
  readonly meaning: string
  readonly list?: true
  readonly id?: Operand
  readonly text?: Operand
}

const EXAMPLE_ID = '1'
const bound: Schema = { type: 'integer', format: 'int64', minimum: 0, maximum: MAX_ID }

/** The operators by name. The empty name stands for a filter without an operator. */
const operators: Readonly<Record<string, Operator>> = {
  '': {
    meaning: 'equals the value; a leading `!` selects all other records',
    id: {
      // Not a list of types: fewer generators of clients know it than `anyOf`.
      schema: {
        anyOf: [
          { type: 'integer', minimum: 1, maximum: MAX_ID },
          { type: 'string', pattern: '^!?[1-9][0-9]{0,15}$' },
        ],
      },
      examples: value => [Number(value), `!${value}`],
    },
    text: { schema: { type: 'string' }, examples: value => [value, `!${value}`] },
  },
  in: {
    meaning: 'is one of the values: the parameter can be repeated, and commas separate values, too',
    list: true,
    id: { schema: idItem, examples: () => [1, 2] },
    text: { schema: { type: 'string', pattern: '^[^,]+$' }, examples: value => [value] },
  },
  gt: { meaning: 'is greater than the value', id: { schema: bound, examples: () => [1] } },
  lt: { meaning: 'is less than the value', id: { schema: bound, examples: () => [9] } },
  prefix: {
    meaning: 'starts with the value',
    text: { schema: { type: 'string', minLength: 1 }, examples: value => [value.slice(0, 1)] },
  },
  exists: {
    meaning: 'has a value; `false` selects all other records',
    text: { schema: { type: 'boolean' }, examples: () => [true] },
  },
}

function filterParameter(resource: Resource, name: string, target: FilterTarget): Parameter {
  const { relation, column } = target
  const operator = operators[target.operator]
  const operand = operator?.[column === 'id' ? 'id' : 'text']
  if (operator === undefined || operand === undefined)
    throw new Error(`the filter ${name} has no description for the document`)
  const { fields } = relation?.to ?? resource
  const examples = operand.examples(fields[column]?.example ?? EXAMPLE_ID)
  const description = `${capitalize(operator.meaning)}.`
  if (operator.list) return listInQuery(name, description, { items: operand.schema, examples: [examples] })
  return inQuery(name, description, { ...operand.schema, examples })
}

function searchParameter(resource: Resource): Parameter {
  const words = Object.values(resource.fields).map(({ example }) => example.slice(0, 3).toLowerCase())
  const description = `At most ${MAX_SEARCH_WORDS} words. A record matches if the words, in their order, can be cut into runs of one or more, each of which begins one of its text fields. Case and accents are ignored. Every character is literal.`
  return inQuery('search', description, { type: 'string', examples: [words.join(' ')] })
}

export function collectionParameters(resource: Resource, limits: Config['limits']): Parameter[] {
  const keys = columnsOf(resource).flatMap(column => [column, `-${column}`])
  const description =
    'The sort keys, separated by commas, each field at most once. The prefix `-` sorts in descending order. Text is sorted by code point. In ascending order, missing values come first. Records with equal keys, and all records without a sort key, are sorted by ascending id.'
  return [
    ...includeParameters(resource),
    namesInQuery('sort', description, keys, keys.slice(-1)),
    ...pagingParameters(limits.recordsPerPage, defaultRecordsPerPage(limits)),
    searchParameter(resource),
    ...[...filtersOf(resource)].map(([name, target]) => filterParameter(resource, name, target)),
  ]
}
