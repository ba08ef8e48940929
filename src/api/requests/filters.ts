// One filter of a collection: a parameter's name says what is compared and how, its value with what.
import type { Comparison, Filter } from '../../database/reading/page-query.ts'
import { columnsOf, parseId, type Resource } from '../../model/resource.ts'

/** Why a parameter is no filter: its name is unknown, or its value is wrong; `message` says what is possible. */
export interface Refusal {
  readonly code: 'unknown_parameter' | 'invalid_parameter'
  readonly message: string
}

type Kind = 'id' | 'text'

const operators = {
  id: { gt: 'above', lt: 'below', in: 'in' },
  text: { in: 'in', prefix: 'prefix', exists: 'exists' },
} as const

const invalid = (message: string): Refusal => ({ code: 'invalid_parameter', message })

const isRefusal = (value: object): value is Refusal => 'code' in value

/** `!x` differs from x; `\!x` is the value `!x`, `\\x` the value `\x`; after a negating `!` the rest is literal. */
function readEscapes(value: string): { negated: boolean; literal: string } {
  if (value.startsWith('!')) return { negated: true, literal: value.slice(1) }
  return { negated: false, literal: /^\\[!\\]/.test(value) ? value.slice(1) : value }
}

const notAnId = (name: string, value: string) =>
  invalid(`${name}: ${JSON.stringify(value)} is not an id: a whole number from 1, without leading zeros`)

function compareId(name: string, operator: string, value: string): Comparison | Refusal {
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
  // A bound need not be an id that could exist: all are above 0.
  const id = operator !== '' && digits === '0' ? 0 : parseId(digits)
  if (id === undefined) return notAnId(name, digits)
  if (operator === 'gt') return { operator: 'above', value: id }
  if (operator === 'lt') return { operator: 'below', value: id }
  return { operator: negated ? 'differs' : 'equals', value: id }
}

function compareText(name: string, operator: string, value: string): Comparison | Refusal {
  if (operator === '') {
    const { negated, literal } = readEscapes(value)
    return { operator: negated ? 'differs' : 'equals', value: literal }
  }
  if (value === '') return invalid(`${name}: needs a value`)
  if (operator === 'prefix') return { operator, value }
  if (operator === 'in') return { operator, value: value.split(',') }
  if (value === 'true' || value === 'false') return { operator: 'exists', value: value === 'true' }
  return invalid(`${name}: is true or false, not ${JSON.stringify(value)}`)
}

/** Every filter of `resource`, as the names of its parameters. */
export function filterNames(resource: Resource): string[] {
  const own = columnsOf(resource)
  const { relation } = resource
  const related =
    relation === undefined ? [] : columnsOf(relation.to).map(column => `${relation.name}[*].${column}`)
  return [...own, ...related].flatMap(name => {
    const kind: Kind = /(^|\.)id$/.test(name) ? 'id' : 'text'
    return [name, ...Object.keys(operators[kind]).map(operator => `${name}[${operator}]`)]
  })
}

/** Reads `first_name`, `id[gt]`, `groups[*].name[prefix]` and the like. */
export function parseFilter(resource: Resource, name: string, value: string): Filter | Refusal {
  if (!filterNames(resource).includes(name))
    return { code: 'unknown_parameter', message: `${JSON.stringify(name)} is not a parameter here` }
  const related = name.includes('[*].')
  const path = related ? name.slice(name.indexOf('[*].') + 4) : name
  const bracket = path.indexOf('[')
  const column = bracket === -1 ? path : path.slice(0, bracket)
  const operator = bracket === -1 ? '' : path.slice(bracket + 1, -1)
  const comparison = (column === 'id' ? compareId : compareText)(name, operator, value)
  return isRefusal(comparison) ? comparison : { related, column, comparison }
}
