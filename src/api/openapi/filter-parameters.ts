// The filters of a collection as the document describes them, from the names that the service itself reads.
import { MAX_ID, type Resource } from '../../model/resource.ts'
import { filterNames } from '../requests/filters.ts'
import type { Schema } from './json-schema.ts'
import { inQuery, listInQuery, type Parameter } from './parameters.ts'

interface Operator {
  readonly describe: (what: string) => string
  readonly schema: Schema
  /** Made of a value of the field. */
  readonly examples: (value: string) => unknown[]
  readonly list?: true
}

const bound: Schema = { type: 'integer', format: 'int64', minimum: 0, maximum: MAX_ID }

/** What the operators in a filter's name mean, for ids and for names; '' is a filter that names none. */
const operators: Readonly<Record<'id' | 'text', Readonly<Record<string, Operator>>>> = {
  id: {
    '': {
      describe: what => `${what} is this; with a leading \`!\` the exact complement.`,
      schema: { type: ['integer', 'string'], minimum: 1, maximum: MAX_ID, pattern: '^!?[1-9][0-9]{0,15}$' },
      examples: () => [1, '!1'],
    },
    gt: { describe: what => `${what} is greater than this.`, schema: bound, examples: () => [1] },
    lt: { describe: what => `${what} is less than this.`, schema: bound, examples: () => [9] },
    in: {
      describe: what => `${what} is one of these.`,
      // Without a format: the page has no input for lists of int64.
      schema: { type: 'integer', minimum: 1, maximum: MAX_ID },
      examples: () => [1, 2],
      list: true,
    },
  },
  text: {
    '': {
      describe: what =>
        `${what} is exactly this; with a leading \`!\` the exact complement, what is missing too. \`\\!x\` is the value \`!x\`, \`\\\\x\` the value \`\\x\`.`,
      schema: { type: 'string' },
      examples: value => [value, `!${value}`],
    },
    in: {
      describe: what => `${what} is one of these.`,
      schema: { type: 'string', pattern: '^[^,]+$' },
      examples: value => [value],
      list: true,
    },
    prefix: {
      describe: what => `${what} begins with this.`,
      schema: { type: 'string', minLength: 1 },
      examples: value => [value.slice(0, 1)],
    },
    exists: {
      describe: what => `Whether there is a value: ${what}.`,
      schema: { type: 'boolean' },
      examples: () => [true],
    },
  },
}

/** `groups[*].name[prefix]` and the like, taken apart. */
function filterParameter(resource: Resource, name: string): Parameter {
  const [, related, column = '', operator = ''] = /^(?:(.+)\[\*\]\.)?([^[]+)(?:\[(.+)\])?$/.exec(name) ?? []
  const found = operators[column === 'id' ? 'id' : 'text'][operator]
  if (found === undefined) throw new Error(`the document does not know the filter ${name}`)
  const { fields } = related === undefined ? resource : (resource.relation?.to ?? resource)
  const examples = found.examples(fields[column]?.example ?? '')
  const what = related === undefined ? `\`${column}\`` : `the \`${column}\` of one of its ${related}`
  const description = found.describe(what).replace(/^the/, 'The')
  if (found.list) return listInQuery(name, description, found.schema, examples)
  return inQuery(name, description, { ...found.schema, examples })
}

export const filterParameters = (resource: Resource): Parameter[] =>
  filterNames(resource).map(name => filterParameter(resource, name))
