// The filters of a collection as SQL. What is counted and what is shown share one predicate.
import type { Knex } from 'knex'
import type { Relation, Resource } from '../../model/resource.ts'
import type { Comparison, Filter, SortKey } from './page-query.ts'

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
export function opposite(comparison: Comparison): Comparison | undefined {
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

/** Whether it is an equality that at most one related record fulfils. */
function isOfOne({ to }: Relation, { related, column, comparison }: Filter): boolean {
  const isUnique = column === 'id' || (to.unique.length === 1 && to.unique[0] === column)
  return related && isUnique && comparison.operator === 'equals'
}

/** SQL: the id of the one related record that an equality names, if there is one; undefined for other filters. */
export function theOne(on: Knex, relation: Relation, filter: Filter): Knex.QueryBuilder | undefined {
  if (!isOfOne(relation, filter)) return undefined
  return on(relation.to.plural).where(filter.column, filter.comparison.value).select('id')
}

const pairOf = (filter: number) => `pair${filter}`

function compareRelated(
  builder: Knex.QueryBuilder,
  on: Knex,
  resource: Resource,
  relation: Relation,
  filter: Filter,
  alias: string,
): void {
  const { column } = filter
  const denied = opposite(filter.comparison)
  const comparison = denied ?? filter.comparison
  const { table, ownKey, otherKey, to } = relation
  const ownId = `${resource.plural}.id`
  const one = theOne(on, relation, { ...filter, comparison })
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
    compare(related, `${to.plural}.${column}`, comparison)
  })
}

/** The records of `resource` that all `filters` allow, as a statement that has yet to say what it selects. */
export function matching(on: Knex, resource: Resource, filters: readonly Filter[]): Knex.QueryBuilder {
  const builder = on(resource.plural)
  for (const [index, filter] of filters.entries()) {
    if (!filter.related) compare(builder, `${resource.plural}.${filter.column}`, filter.comparison)
    else if (resource.relation !== undefined)
      compareRelated(builder, on, resource, resource.relation, filter, pairOf(index))
  }
  return builder
}

/**
 * The column with the ids of what `matching` finds. Where members are joined it is theirs: MySQL reads them in this order,
 * but sorts all of them for that of the id that is equal to it.
 */
export function idOfMatching({ plural, relation }: Resource, filters: readonly Filter[]): string {
  const joined = filters.findIndex(filter => relation !== undefined && isOfOne(relation, filter))
  return joined === -1 || relation === undefined ? `${plural}.id` : `${pairOf(joined)}.${relation.ownKey}`
}

/** Orders by `keys`, then by ascending `id`. NULL is first in MySQL's ascending order and last in its descending one. */
export function applySort(
  builder: Knex.QueryBuilder,
  table: string,
  keys: readonly SortKey[],
  id = `${table}.id`,
): void {
  for (const { column, descending } of keys)
    builder.orderBy(column === 'id' ? id : `${table}.${column}`, descending ? 'desc' : 'asc')
  if (!keys.some(({ column }) => column === 'id')) builder.orderBy(id)
}
