// The filters of a collection as SQL. What is counted and what is shown share one predicate.
import type { Knex } from 'knex'
import type { Relation, Resource } from '../resources/definition.ts'

export type Comparison =
  | { readonly operator: 'equals' | 'differs' | 'above' | 'below'; readonly value: string | number }
  | { readonly operator: 'prefix'; readonly value: string }
  | { readonly operator: 'in'; readonly value: readonly (string | number)[] }
  | { readonly operator: 'exists'; readonly value: boolean }

/** A condition on a field of the resource itself, or, with `related`, of any one of those it is related to. */
export interface Filter {
  readonly related: boolean
  readonly column: string
  readonly comparison: Comparison
}

export interface SortKey {
  readonly column: string
  readonly descending: boolean
}

/**
 * The least string that is greater than every string with this prefix, in code point order; undefined where there is none.
 * A range is exact and uses the index; for LIKE, MariaDB 10.11 loses names with a character over U+FFFF behind the prefix.
 */
function after(prefix: string): string | undefined {
  const codePoints = Array.from(prefix, character => character.codePointAt(0) ?? 0)
  for (let last = codePoints.pop(); last !== undefined; last = codePoints.pop()) {
    if (last === 0x10ffff) continue
    // Surrogates are no characters.
    return String.fromCodePoint(...codePoints, last === 0xd7ff ? 0xe000 : last + 1)
  }
  return undefined
}

/** The complement of a comparison that `differs` or denies; a missing value is in the complement. */
function opposite(comparison: Comparison): Comparison | undefined {
  if (comparison.operator === 'differs') return { operator: 'equals', value: comparison.value }
  if (comparison.operator === 'exists' && !comparison.value) return { operator: 'exists', value: true }
  return undefined
}

function applyPrefix(builder: Knex.QueryBuilder, column: string, prefix: string): void {
  builder.where(column, '>=', prefix)
  const end = after(prefix)
  if (end !== undefined) builder.where(column, '<', end)
}

function compare(builder: Knex.QueryBuilder, column: string, comparison: Comparison): void {
  const { operator, value } = comparison
  switch (operator) {
    case 'equals':
      builder.where(column, '=', value)
      break
    case 'differs':
      builder.where(either => either.where(column, '<>', value).orWhereNull(column))
      break
    case 'above':
      builder.where(column, '>', value)
      break
    case 'below':
      builder.where(column, '<', value)
      break
    case 'in':
      builder.whereIn(column, [...value])
      break
    case 'prefix':
      applyPrefix(builder, column, value)
      break
    case 'exists':
      if (value) builder.whereNotNull(column)
      else builder.whereNull(column)
  }
}

function compareRelated(
  builder: Knex.QueryBuilder,
  resource: Resource,
  relation: Relation,
  { column, comparison }: Filter,
): void {
  const denied = opposite(comparison)
  const { table, ownKey, otherKey, to } = relation
  builder[denied === undefined ? 'whereExists' : 'whereNotExists'](related => {
    related
      .from(table)
      .join(to.plural, `${to.plural}.id`, `${table}.${otherKey}`)
      .whereRaw('?? = ??', [`${table}.${ownKey}`, `${resource.plural}.id`])
      .select(`${table}.${ownKey}`)
    compare(related, `${to.plural}.${column}`, denied ?? comparison)
  })
}

/** Narrows `builder`, which reads the resource's table, to what all `filters` allow. */
export function applyFilters(
  builder: Knex.QueryBuilder,
  resource: Resource,
  filters: readonly Filter[],
): void {
  for (const filter of filters) {
    if (!filter.related) compare(builder, `${resource.plural}.${filter.column}`, filter.comparison)
    else if (resource.relation !== undefined) compareRelated(builder, resource, resource.relation, filter)
  }
}

/** Orders by `keys`, then by ascending id. NULL is first in MySQL's ascending order and last in its descending one. */
export function applySort(builder: Knex.QueryBuilder, table: string, keys: readonly SortKey[]): void {
  for (const { column, descending } of keys)
    builder.orderBy(`${table}.${column}`, descending ? 'desc' : 'asc')
  if (!keys.some(({ column }) => column === 'id')) builder.orderBy(`${table}.id`)
}
