// The parameters as the document describes them, from the names that the service itself reads.
import { saneToken } from '../../http/edge.ts'
import { columnsOf, MAX_ID, type Resource } from '../definition.ts'
import { filterNames } from '../filters.ts'
import { unpagedRecords } from '../query.ts'
import { type DocumentLimits, idSchema, type Schema } from './schemas.ts'

export type Parameter = Readonly<Record<string, unknown>>

const inQuery = (name: string, description: string, schema: Schema): Parameter => ({
  name,
  in: 'query',
  description,
  schema,
})

/** Names that stand in one parameter, between commas. */
const listInQuery = (name: string, description: string, items: Schema): Parameter => ({
  ...inQuery(name, description, { type: 'array', items }),
  style: 'form',
  explode: false,
})

interface Operator {
  readonly describe: (what: string) => string
  readonly schema: Schema
  readonly list?: true
}

const text: Schema = { type: 'string' }
const bound: Schema = { type: 'integer', format: 'int64', minimum: 0, maximum: MAX_ID }
const listedText: Schema = { type: 'string', pattern: '^[^,]+$' }
// Without a format: the page has no input for lists of int64.
const listedId: Schema = { type: 'integer', minimum: 1, maximum: MAX_ID }

/** What the operators in a filter's name mean, for ids and for names; '' is a filter that names none. */
const operators: Readonly<Record<'id' | 'text', Readonly<Record<string, Operator>>>> = {
  id: {
    '': {
      describe: what => `${what} is this; with a leading \`!\` the exact complement: all others.`,
      schema: { type: ['integer', 'string'], minimum: 1, maximum: MAX_ID, pattern: '^!?[1-9][0-9]{0,15}$' },
    },
    gt: { describe: what => `${what} is greater than this.`, schema: bound },
    lt: { describe: what => `${what} is less than this.`, schema: bound },
    in: { describe: what => `${what} is one of these.`, schema: listedId, list: true },
  },
  text: {
    '': {
      describe: what =>
        `${what} is exactly this; with a leading \`!\` the exact complement: another, or none. \`\\!x\` is the value \`!x\`, \`\\\\x\` the value \`\\x\`.`,
      schema: text,
    },
    in: { describe: what => `${what} is one of these.`, schema: listedText, list: true },
    prefix: { describe: what => `${what} begins with this.`, schema: { type: 'string', minLength: 1 } },
    exists: { describe: what => `Whether there is a value: ${what}.`, schema: { type: 'boolean' } },
  },
}

/** `groups[*].name[prefix]` and the like, taken apart. */
function filterParameter(name: string): Parameter {
  const [, related, column = '', operator = ''] = /^(?:(.+)\[\*\]\.)?([^[]+)(?:\[(.+)\])?$/.exec(name) ?? []
  const found = operators[column === 'id' ? 'id' : 'text'][operator]
  if (found === undefined) throw new Error(`the document does not know the filter ${name}`)
  const what = related === undefined ? `\`${column}\`` : `the \`${column}\` of one of its ${related}`
  const sentence = found.describe(what)
  const description = sentence.charAt(0).toUpperCase() + sentence.slice(1)
  return (found.list ? listInQuery : inQuery)(name, description, found.schema)
}

const integer = (minimum: number, maximum: number, byDefault: number | undefined): Schema => ({
  type: 'integer',
  minimum,
  maximum,
  ...(byDefault !== undefined && { default: byDefault }),
})

/** @param unpaged how many records there are where the request does not say; undefined is all */
export function pagingParameters(limits: DocumentLimits, unpaged?: number): Parameter[] {
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
  return [listInQuery('include', description, { type: 'string', enum: [relation.name] })]
}

/** Every parameter of a collection. */
export function listParameters(resource: Resource, limits: DocumentLimits): Parameter[] {
  const keys = columnsOf(resource).flatMap(column => [column, `-${column}`])
  const description =
    'By code point, `-` for descending; missing values first when ascending. Ties by ascending id.'
  return [
    ...filterNames(resource).map(filterParameter),
    listInQuery('sort', description, { type: 'string', enum: keys }),
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
  schema: { type: 'string', pattern: saneToken.source },
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
  schema: { type: 'string', pattern: '^[!-~]{1,255}$' },
}
