// Describes the parameters of a collection. The names of its filters come from their parser. A table of the introduction
// describes the operators once for all filters.
import type { Config } from '../../config/config.ts'
import { columnsOf, MAX_ID, type Resource } from '../../model/resource.ts'
import { type FilterTarget, filtersOf } from '../requests/filters.ts'
import { unpagedRecords } from '../requests/query.ts'
import { capitalize, type Schema } from './json-schema.ts'
import { includeParameters, inQuery, listInQuery, type Parameter, pagingParameters } from './parameters.ts'

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
      schema: { type: ['integer', 'string'], minimum: 1, maximum: MAX_ID, pattern: '^!?[1-9][0-9]{0,15}$' },
      examples: value => [Number(value), `!${value}`],
    },
    text: { schema: { type: 'string' }, examples: value => [value, `!${value}`] },
  },
  in: {
    meaning: 'is one of the comma-separated values',
    list: true,
    // The schema has no format because swagger-ui has no input for lists of int64.
    id: { schema: { type: 'integer', minimum: 1, maximum: MAX_ID }, examples: () => [1, 2] },
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

const kindOf = (column: string) => (column === 'id' ? 'id' : 'text')

const exampleOf = ({ fields }: Resource, column: string): string => fields[column]?.example ?? EXAMPLE_ID

function filterParameter(resource: Resource, name: string, target: FilterTarget): Parameter {
  const { relation, column } = target
  const operator = operators[target.operator]
  const operand = operator?.[kindOf(column)]
  if (operator === undefined || operand === undefined)
    throw new Error(`the filter ${name} has no description for the document`)
  const examples = operand.examples(exampleOf(relation?.to ?? resource, column))
  const description = `${capitalize(operator.meaning)}.`
  if (operator.list) return listInQuery(name, description, operand.schema, examples)
  return inQuery(name, description, { ...operand.schema, examples })
}

/** Returns the parameters of a collection. */
export function collectionParameters(resource: Resource, limits: Config['limits']): Parameter[] {
  const keys = columnsOf(resource).flatMap(column => [column, `-${column}`])
  const description =
    'The sort keys, separated by commas. The prefix `-` sorts in descending order. Text is sorted by code point. In ascending order, missing values come first. Records with equal keys, and all records without a sort key, are sorted by ascending id.'
  return [
    ...includeParameters(resource),
    listInQuery('sort', description, { type: 'string', enum: keys }, keys.slice(-1)),
    ...pagingParameters(limits, unpagedRecords(limits)),
    ...[...filtersOf(resource)].map(([name, target]) => filterParameter(resource, name, target)),
  ]
}

/** Returns a Markdown table of all operators, with examples for the id and for the field `column`. */
export function operatorTable(resource: Resource, column: string): string {
  const rows = Object.entries(operators).map(([name, operator]) => {
    const filters = ['id', column].flatMap(field => {
      const values = operator[kindOf(field)]?.examples(exampleOf(resource, field)) ?? []
      const operands = operator.list && values.length > 0 ? [values.join(',')] : values
      return operands.map(operand => `\`${field}${name && `[${name}]`}=${operand}\``)
    })
    return `| ${filters.join(', ')} | ${operator.meaning} |`
  })
  return ['| Filter | The field |', '|---|---|', ...rows].join('\n')
}
