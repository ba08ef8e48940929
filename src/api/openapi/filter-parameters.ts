// Describes the filters of a collection. The names come from the parser of the filters, so none can be missing.
import { MAX_ID, type Resource } from '../../model/resource.ts'
import { filterNames } from '../requests/filters.ts'
import type { Schema } from './json-schema.ts'
import { inQuery, listInQuery, type Parameter } from './parameters.ts'

interface Operator {
  /** @param subject the filtered field, as the start of a sentence or after a verb */
  readonly describe: (subject: string) => string
  readonly schema: Schema
  /** @param value an example value of the field */
  readonly examples: (value: string) => unknown[]
  readonly list?: true
}

const bound: Schema = { type: 'integer', format: 'int64', minimum: 0, maximum: MAX_ID }

/** The operators by name, for ids and for strings. The empty name stands for a filter without an operator. */
const operators: Readonly<Record<'id' | 'text', Readonly<Record<string, Operator>>>> = {
  id: {
    '': {
      describe: subject =>
        `${subject} equals the value. A leading \`!\` negates the filter: it selects all other records.`,
      schema: { type: ['integer', 'string'], minimum: 1, maximum: MAX_ID, pattern: '^!?[1-9][0-9]{0,15}$' },
      examples: () => [1, '!1'],
    },
    gt: {
      describe: subject => `${subject} is greater than the value.`,
      schema: bound,
      examples: () => [1],
    },
    lt: { describe: subject => `${subject} is less than the value.`, schema: bound, examples: () => [9] },
    in: {
      describe: subject => `${subject} is one of the comma-separated values.`,
      // The schema has no format because swagger-ui has no input for lists of int64.
      schema: { type: 'integer', minimum: 1, maximum: MAX_ID },
      examples: () => [1, 2],
      list: true,
    },
  },
  text: {
    '': {
      describe: subject =>
        `${subject} equals the value. A leading \`!\` negates the filter: it selects all other records, including those without a value. \`\\!x\` is the value \`!x\`, and \`\\\\x\` is the value \`\\x\`.`,
      schema: { type: 'string' },
      examples: value => [value, `!${value}`],
    },
    in: {
      describe: subject => `${subject} is one of the comma-separated values.`,
      schema: { type: 'string', pattern: '^[^,]+$' },
      examples: value => [value],
      list: true,
    },
    prefix: {
      describe: subject => `${subject} starts with the value.`,
      schema: { type: 'string', minLength: 1 },
      examples: value => [value.slice(0, 1)],
    },
    exists: {
      describe: subject => `\`true\`: ${subject} has a value. \`false\`: selects all other records.`,
      schema: { type: 'boolean' },
      examples: () => [true],
    },
  },
}

/** @param name the name of the filter, such as `groups[*].name[prefix]` */
function filterParameter(resource: Resource, name: string): Parameter {
  const [, related, column = '', operatorName = ''] =
    /^(?:(.+)\[\*\]\.)?([^[]+)(?:\[(.+)\])?$/.exec(name) ?? []
  const operator = operators[column === 'id' ? 'id' : 'text'][operatorName]
  if (operator === undefined) throw new Error(`the filter ${name} has no description for the document`)
  const { fields } = resource.relations.find(relation => relation.name === related)?.to ?? resource
  const examples = operator.examples(fields[column]?.example ?? '')
  const subject =
    related === undefined ? `\`${column}\`` : `the \`${column}\` of at least one of its ${related}`
  const description = operator.describe(subject).replace(/^the/, 'The')
  if (operator.list) return listInQuery(name, description, operator.schema, examples)
  return inQuery(name, description, { ...operator.schema, examples })
}

export const filterParameters = (resource: Resource): Parameter[] =>
  filterNames(resource).map(name => filterParameter(resource, name))
