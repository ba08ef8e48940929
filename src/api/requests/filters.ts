// The filters of a collection: the name of a filter parameter contains the field and the operator, its value is the operand.
import { quoted } from '../../core/quoted.ts'
import type { Comparison, Filter } from '../../database/reading/page-query.ts'
import { columnsOf, MAX_ID, parseId, type Resource } from '../../model/resource.ts'
import { notAnId, type Parameters } from './parameters.ts'

/** What a filter parameter compares, and how. The empty operator is equality. */
export interface FilterTarget extends Pick<Filter, 'relation' | 'column'> {
  readonly operator: string
}

const idOperators = ['', 'gt', 'lt', 'in']
const textOperators = ['', 'in', 'prefix', 'exists']

/** Returns the filters of `resource` by parameter name, such as `first_name`, `id[gt]` and `groups[*].name[prefix]`. */
export function filtersOf(resource: Resource): Map<string, FilterTarget> {
  const filters = new Map<string, FilterTarget>()
  for (const relation of [undefined, ...resource.relations])
    for (const column of columnsOf(relation?.to ?? resource)) {
      const name = relation === undefined ? column : `${relation.name}[*].${column}`
      for (const operator of column === 'id' ? idOperators : textOperators)
        filters.set(operator === '' ? name : `${name}[${operator}]`, { relation, column, operator })
    }
  return filters
}

/** `!x` negates, `\!x` is the value `!x` and `\\x` the value `\x`. After a negating `!` the rest is literal. */
function compareText(operator: string, value: string): Comparison | string {
  if (operator === '') {
    if (value.startsWith('!')) return { operator: 'differs', value: value.slice(1) }
    return { operator: 'equals', value: /^\\[!\\]/.test(value) ? value.slice(1) : value }
  }
  if (value === '') return 'must not be empty'
  if (operator === 'prefix') return { operator, value }
  if (operator === 'in') return { operator, value: value.split(',') }
  if (value === 'true' || value === 'false') return { operator: 'exists', value: value === 'true' }
  return `must be true or false, not ${quoted(value)}`
}

function compareId(operator: string, value: string): Comparison | string {
  if (operator === 'in') {
    const ids: number[] = []
    for (const part of value.split(',')) {
      const id = parseId(part)
      if (id === undefined) return notAnId(part)
      ids.push(id)
    }
    return { operator, value: ids }
  }
  if (operator === '') {
    const negated = value.startsWith('!')
    const digits = negated ? value.slice(1) : value
    const id = parseId(digits)
    return id === undefined ? notAnId(digits) : { operator: negated ? 'differs' : 'equals', value: id }
  }
  // A bound can be 0, although ids start at 1: every id is above it.
  const bound = value === '0' ? 0 : parseId(value)
  if (bound === undefined)
    return `${quoted(value)} is not an integer from 0 to ${MAX_ID} without leading zeros`
  return { operator: operator === 'gt' ? 'above' : 'below', value: bound }
}

/** Parses the value of a filter. Returns what is wrong with it if it is invalid. */
const parseComparison = ({ column, operator }: FilterTarget, value: string): Comparison | string =>
  (column === 'id' ? compareId : compareText)(operator, value)

/** Parses the filters of a request. @param max the maximum number of filters */
export function parseFilters(
  parameters: Parameters,
  targets: ReadonlyMap<string, FilterTarget>,
  max: number,
): Filter[] {
  const filters: Filter[] = []
  /** By parameter. A repeated list is one list: many clients repeat the parameter for each element of an array. */
  const lists = new Map<string, (string | number)[]>()
  for (const { name, value } of parameters.pairs) {
    const target = targets.get(name)
    if (target === undefined) continue
    let comparison = parseComparison(target, value)
    if (typeof comparison === 'string') {
      parameters.fault(name, comparison)
      continue
    }
    if (comparison.operator === 'in') {
      const list = lists.get(name) ?? []
      list.push(...comparison.value)
      if (lists.has(name)) continue
      lists.set(name, list)
      comparison = { operator: 'in', value: list }
    }
    filters.push({ relation: target.relation, column: target.column, comparison })
    if (filters.length === max + 1)
      parameters.fault(name, `at most ${max} filters are allowed`, 'limit_exceeded')
  }
  return filters
}
