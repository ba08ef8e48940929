// Converts the filters and sort keys of a collection to SQL. The count and the page use the same predicate.
import type { Knex } from 'knex'
import type { Relation, Resource } from '../../model/resource.ts'
import type { Comparison, Filter, Selection, SortKey } from './page-query.ts'
import { searchQueries } from './search.ts'

/**
 * Returns the least string that is greater than every string with this prefix, in code point order; undefined
 * if there is none. A range condition is exact and uses the index. With LIKE, MariaDB 10.11 omits names with
 * a character above U+FFFF after the prefix.
 */
function endOfPrefix(prefix: string): string | undefined {
  const codePoints = Array.from(prefix, character => character.codePointAt(0) ?? 0)
  for (let last = codePoints.pop(); last !== undefined; last = codePoints.pop()) {
    if (last === 0x10ffff) continue
    // The surrogates U+D800 to U+DFFF are not characters.
    return String.fromCodePoint(...codePoints, last === 0xd7ff ? 0xe000 : last + 1)
  }
  return undefined
}

/** Returns the complement of a negative comparison, which also matches NULL; undefined for a positive one. */
export function complementOf(comparison: Comparison): Comparison | undefined {
  if (comparison.operator === 'differs') return { operator: 'equals', value: comparison.value }
  if (comparison.operator === 'exists' && !comparison.value) return { operator: 'exists', value: true }
  return undefined
}

function applyPrefix(builder: Knex.QueryBuilder, column: string, prefix: string): Knex.QueryBuilder {
  builder.where(column, '>=', prefix)
  const end = endOfPrefix(prefix)
  return end === undefined ? builder : builder.where(column, '<', end)
}

export function compare(
  builder: Knex.QueryBuilder,
  column: string,
  comparison: Comparison,
): Knex.QueryBuilder {
  const { operator, value } = comparison
  switch (operator) {
    case 'equals':
      return builder.where(column, '=', value)
    case 'differs':
      return builder.where(condition => condition.where(column, '<>', value).orWhereNull(column))
    case 'above':
      return builder.where(column, '>', value)
    case 'below':
      return builder.where(column, '<', value)
    case 'in':
      return builder.whereIn(column, [...value])
    case 'prefix':
      return applyPrefix(builder, column, value)
    case 'exists':
      return value ? builder.whereNotNull(column) : builder.whereNull(column)
  }
}

/** A condition on a field of at least one related record. */
export type RelatedFilter = Filter & { readonly relation: Relation }

export const isRelated = (filter: Filter): filter is RelatedFilter => filter.relation !== undefined

/** Whether the filter is an equality that at most one related record can match. */
export function matchesOneRelated({ relation: { to }, column, comparison }: RelatedFilter): boolean {
  const isUnique = column === 'id' || (to.unique.length === 1 && to.unique[0] === column)
  return isUnique && comparison.operator === 'equals'
}

/** Returns SQL for the id of the related record that matches a filter of `membersFilter`. */
export const memberOfSql = (knex: Knex, { relation, column, comparison }: RelatedFilter): Knex.QueryBuilder =>
  knex(relation.to.plural).where(column, comparison.value).select('id')

/** The alias of the pairs from which a query for the members of one related record starts. */
const MEMBERS = 'members'
/** The alias of the ids that a search has found. */
const FOUND = 'found'

/** Returns a query for the pairs of the members of one related record. */
const membersOf = (knex: Knex, members: RelatedFilter): Knex.QueryBuilder =>
  knex({ [MEMBERS]: members.relation.table }).where(
    `${MEMBERS}.${members.relation.toKey}`,
    memberOfSql(knex, members),
  )

/** Returns the first filter that selects the members of one related record. */
export const membersFilter = (filters: readonly Filter[]): RelatedFilter | undefined =>
  filters.filter(isRelated).find(matchesOneRelated)

/**
 * The database merges an EXISTS into a join. With more than a few of them, it would compare so many orders of their tables that
 * the statement exceeds its time limit before it reads a row.
 */
const MAX_MERGED = 3
/** The database joins at most 61 tables, and a search, a sort and each EXISTS that it merges need some of them. */
const MAX_JOINED = 20

/** @param ownId the column with the id of the record @param index the number of related filters before this one */
function compareRelated(
  builder: Knex.QueryBuilder,
  knex: Knex,
  ownId: string,
  filter: RelatedFilter,
  index: number,
): void {
  const { relation, column } = filter
  const { table, fromKey, toKey, to } = relation
  const complement = complementOf(filter.comparison)
  const isNegative = complement !== undefined
  const positive = { ...filter, comparison: complement ?? filter.comparison }
  if (matchesOneRelated(positive) && index < MAX_JOINED) {
    // Pairs are unique, so the join returns no duplicates. The database can start with the members in the
    // order of their ids. With EXISTS, it might first collect all members of a group.
    const alias = `pair${index}`
    const relatedId = knex.raw('?', [memberOfSql(knex, positive)])
    const onPair: Knex.JoinCallback = pair =>
      pair.on(`${alias}.${fromKey}`, ownId).on(`${alias}.${toKey}`, relatedId)
    if (isNegative) builder.leftJoin({ [alias]: table }, onPair).whereNull(`${alias}.${fromKey}`)
    else builder.innerJoin({ [alias]: table }, onPair)
    return
  }
  const related = knex(table)
    .join(to.plural, `${to.plural}.id`, `${table}.${toKey}`)
    .whereRaw('?? = ??', [`${table}.${fromKey}`, ownId])
    .select(`${table}.${fromKey}`)
  compare(related, `${to.plural}.${column}`, positive.comparison)
  if (index >= MAX_MERGED) builder.whereRaw('IF(EXISTS ?, 1, 0) = ?', [related, isNegative ? 0 : 1])
  else if (isNegative) builder.whereNotExists(related)
  else builder.whereExists(related)
}

/**
 * Returns a query for the records of `resource` that `selection` selects, without a select list. For the members of one
 * related record, it reads the pairs, and the table of the resource only if a filter or a sort key needs it.
 */
export function matching(
  knex: Knex,
  resource: Resource,
  selection: Selection,
  sort: readonly SortKey[],
): Knex.QueryBuilder {
  const { plural } = resource
  const { filters, search } = selection
  const ownId = idOfMatching(resource, selection)
  const members = membersFilter(filters)
  const found =
    search.length > 0
      ? knex.unionAll(searchQueries(knex, resource, search).map(query => query.select('id'))).as(FOUND)
      : undefined
  const builder = members === undefined ? knex(found ?? plural) : membersOf(knex, members)
  if (members !== undefined && found !== undefined) builder.join(found, `${FOUND}.id`, ownId)
  const needsRow =
    sort.some(({ column }) => column !== 'id') ||
    filters.some(filter => !isRelated(filter) && filter.column !== 'id')
  if (needsRow && ownId !== `${plural}.id`) builder.join(plural, `${plural}.id`, ownId)
  let related = 0
  for (const filter of filters) {
    if (filter === members) continue
    if (isRelated(filter)) compareRelated(builder, knex, ownId, filter, related++)
    else compare(builder, filter.column === 'id' ? ownId : `${plural}.${filter.column}`, filter.comparison)
  }
  return builder
}

/**
 * Returns the id column of a `matching` query. If the query reads pairs, it is their column: MySQL reads the pairs in this
 * order, but would sort them by the equal id of the resource.
 */
export function idOfMatching({ plural }: Resource, { filters, search }: Selection): string {
  const members = membersFilter(filters)
  if (members !== undefined) return `${MEMBERS}.${members.relation.fromKey}`
  return `${search.length > 0 ? FOUND : plural}.id`
}

/** Orders by `keys`, then by ascending `id`. In MySQL, NULL sorts before all values. */
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
