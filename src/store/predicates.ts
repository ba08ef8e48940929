// The filters of a collection as SQL. What is counted and what is shown share one predicate.
import type { Knex } from 'knex'
import type { Relation, Resource } from '../resources/definition.ts'
import { countSql, membersKind } from './counts.ts'

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

/**
 * SQL: the id of the one related record that an equality names, which has none if nothing is called so; undefined where
 * a comparison can be true of several.
 */
function theOne(
  on: Knex,
  { to }: Relation,
  column: string,
  comparison: Comparison,
): Knex.QueryBuilder | undefined {
  const unique = column === 'id' || (to.unique.length === 1 && to.unique[0] === column)
  if (!unique || comparison.operator !== 'equals') return undefined
  return on(to.plural).where(column, comparison.value).select('id')
}

function compareRelated(
  builder: Knex.QueryBuilder,
  on: Knex,
  resource: Resource,
  relation: Relation,
  { column, comparison }: Filter,
  alias: string,
): void {
  const denied = opposite(comparison)
  const { table, ownKey, otherKey, to } = relation
  const ownId = `${resource.plural}.id`
  const one = theOne(on, relation, column, denied ?? comparison)
  if (one !== undefined) {
    // A pair is there once at most, so a join gives nothing twice. It lets the database begin with the members, in the
    // order of their ids; and it never collects all members of a group, as it might for EXISTS.
    const join = denied === undefined ? 'innerJoin' : 'leftJoin'
    builder[join]({ [alias]: table }, pair => {
      pair.on(`${alias}.${ownKey}`, ownId).on(`${alias}.${otherKey}`, on.raw('?', [one]))
    })
    if (denied !== undefined) builder.whereNull(`${alias}.${ownKey}`)
    return
  }
  builder[denied === undefined ? 'whereExists' : 'whereNotExists'](related => {
    related
      .from(table)
      .join(to.plural, `${to.plural}.id`, `${table}.${otherKey}`)
      .whereRaw('?? = ??', [`${table}.${ownKey}`, ownId])
      .select(`${table}.${ownKey}`)
    compare(related, `${to.plural}.${column}`, denied ?? comparison)
  })
}

/** The records of `resource` that all `filters` allow, as a statement that has yet to say what it selects. */
export function matching(on: Knex, resource: Resource, filters: readonly Filter[]): Knex.QueryBuilder {
  const builder = on(resource.plural)
  for (const [index, filter] of filters.entries()) {
    if (!filter.related) compare(builder, `${resource.plural}.${filter.column}`, filter.comparison)
    else if (resource.relation !== undefined)
      compareRelated(builder, on, resource, resource.relation, filter, `pair${index}`)
  }
  return builder
}

/**
 * SQL, an expression: how many records of `resource` all `filters` allow. What is known without looking at each of them
 * is taken from the counts: all, the members of one, and the complement of either.
 */
export function totalSql(on: Knex, resource: Resource, filters: readonly Filter[]): Knex.Raw {
  const [filter, ...others] = filters
  if (filter === undefined) return countSql(on, resource.plural)
  if (others.length === 0) {
    const { relation } = resource
    const denied = opposite(filter.comparison)
    if (denied !== undefined) {
      const rest = totalSql(on, resource, [{ ...filter, comparison: denied }])
      return on.raw('? - (?)', [countSql(on, resource.plural), rest])
    }
    const one =
      filter.related && relation !== undefined
        ? theOne(on, relation, filter.column, filter.comparison)
        : undefined
    if (one !== undefined && relation !== undefined) return countSql(on, membersKind(relation.to), one)
  }
  return on.raw('?', [matching(on, resource, filters).count('*')])
}

/** Orders by `keys`, then by ascending id. NULL is first in MySQL's ascending order and last in its descending one. */
export function applySort(builder: Knex.QueryBuilder, table: string, keys: readonly SortKey[]): void {
  for (const { column, descending } of keys)
    builder.orderBy(`${table}.${column}`, descending ? 'desc' : 'asc')
  if (!keys.some(({ column }) => column === 'id')) builder.orderBy(`${table}.id`)
}
