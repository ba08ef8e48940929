// Parses one filter parameter of a collection: its name contains the field and the operator, its value is the operand.
import type { Comparison, Filter } from '../../database/reading/page-query.ts'
import { columnsOf, parseId, type Resource } from '../../model/resource.ts'

/** The parameter is not a valid filter. `message` says what is allowed. */
export interface InvalidFilter {
  readonly code: 'unknown_parameter' | 'invalid_parameter'
  readonly message: string
}

type Kind = 'id' | 'text'

const operators = {
  id: { gt: 'above', lt: 'below', in: 'in' },
  text: { in: 'in', prefix: 'prefix', exists: 'exists' },
} as const

const invalid = (message: string): InvalidFilter => ({ code: 'invalid_parameter', message })

const isInvalid = (value: object): value is InvalidFilter => 'code' in value

/** `!x` negates, `\!x` is the value `!x` and `\\x` the value `\x`. After a negating `!` the rest is literal. */
function readEscapes(value: string): { negated: boolean; literal: string } {
  if (value.startsWith('!')) return { negated: true, literal: value.slice(1) }
  return { negated: false, literal: /^\\[!\\]/.test(value) ? value.slice(1) : value }
}

const notAnId = (name: string, value: string) =>
  invalid(`${name}: ${JSON.stringify(value)} is not an id: a positive integer without leading zeros`)

function compareId(name: string, operator: string, value: string): Comparison | InvalidFilter {
  if (operator === 'in') {
    const ids: number[] = []
    for (const part of value.split(',')) {
      const id = parseId(part)
      if (id === undefined) return notAnId(name, part)
      ids.push(id)
    }
    return { operator: 'in', value: ids }
  }
  const negated = operator === '' && value.startsWith('!')
  const digits = negated ? value.slice(1) : value
  // A bound can be 0, although ids start at 1: every id is above it.
  const id = operator !== '' && digits === '0' ? 0 : parseId(digits)
  if (id === undefined) return notAnId(name, digits)
  if (operator === 'gt') return { operator: 'above', value: id }
  if (operator === 'lt') return { operator: 'below', value: id }
  return { operator: negated ? 'differs' : 'equals', value: id }
}

function compareText(name: string, operator: string, value: string): Comparison | InvalidFilter {
  if (operator === '') {
    const { negated, literal } = readEscapes(value)
    return { operator: negated ? 'differs' : 'equals', value: literal }
  }
  if (value === '') return invalid(`${name}: must not be empty`)
  if (operator === 'prefix') return { operator, value }
  if (operator === 'in') return { operator, value: value.split(',') }
  if (value === 'true' || value === 'false') return { operator: 'exists', value: value === 'true' }
  return invalid(`${name}: must be true or false, not ${JSON.stringify(value)}`)
}

/** Returns the parameter names of all filters of `resource`. */
export function filterNames(resource: Resource): string[] {
  const own = columnsOf(resource)
  const related = resource.relations.flatMap(({ name, to }) =>
    columnsOf(to).map(column => `${name}[*].${column}`),
  )
  return [...own, ...related].flatMap(name => {
    const kind: Kind = /(^|\.)id$/.test(name) ? 'id' : 'text'
    return [name, ...Object.keys(operators[kind]).map(operator => `${name}[${operator}]`)]
  })
}

/** Parses parameters such as `first_name`, `id[gt]` and `groups[*].name[prefix]`. */
export function parseFilter(resource: Resource, name: string, value: string): Filter | InvalidFilter {
  if (!filterNames(resource).includes(name))
    return { code: 'unknown_parameter', message: `unknown parameter ${JSON.stringify(name)}` }
  const relation = resource.relations.find(related => name.startsWith(`${related.name}[*].`))
  const path = relation === undefined ? name : name.slice(relation.name.length + '[*].'.length)
  const bracket = path.indexOf('[')
  const column = bracket === -1 ? path : path.slice(0, bracket)
  const operator = bracket === -1 ? '' : path.slice(bracket + 1, -1)
  const comparison = (column === 'id' ? compareId : compareText)(name, operator, value)
  return isInvalid(comparison) ? comparison : { relation, column, comparison }
}
