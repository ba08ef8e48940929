// Preparatory queries for pages whose cost would otherwise grow with the number of records.
import type { Knex } from 'knex'
import { unavailable } from '../../core/api-error.ts'
import type { Resource } from '../../model/resource.ts'
import { readField } from '../../model/row.ts'
import { SLOT_IDS } from '../counting/counts.ts'
import { exactBlocksSql } from '../counting/earlier-versions.ts'
import { type CountedIds, memberIds, recordIds, seekSql } from '../counting/seek.ts'
import type { Columns } from '../results.ts'
import type { Statements } from '../transaction.ts'
import type { Filter, PageQuery, SortKey } from './page-query.ts'
import { idOfMatching, memberOfSql, membersFilter, type RelatedFilter } from './predicates.ts'

/** The restrictions that make the page query faster. */
export interface PageSeek {
  /** Excludes records before or after the page. */
  readonly narrow?: (shown: Knex.QueryBuilder) => void
  /** The OFFSET of the narrowed query, if it differs from the page's start index. */
  readonly skip?: number
  /** The total of the collection, if it is known. */
  readonly total?: number | undefined
}

/** Numbers of ranges of ids among which a page is searched, one after the other. Without large gaps in the ids, the first is enough. */
const SEARCHED_RANGES = [64, 4096, Number.MAX_SAFE_INTEGER]

/** Restricts a page to the ids from the range on in which it begins. An OFFSET would read all earlier records. */
async function seekFrom(
  resource: Resource,
  query: PageQuery,
  ids: CountedIds,
  on: Statements,
): Promise<PageSeek> {
  const idColumn = idOfMatching(resource, query)
  for (const maxRanges of SEARCHED_RANGES) {
    const [found] = await on.select(knex => seekSql(knex, ids, query.startIndex, maxRanges))
    // The sums are NULL if one of their subqueries was interrupted.
    if (Number(found?.id_ranges) > 0 && found?.total == null)
      throw unavailable(new TypeError('the database returned counts without their sum'))
    if (found?.id_range != null)
      return {
        total: Number(found.total),
        narrow: shown => shown.where(idColumn, '>=', Number(found.id_range) * ids.size),
        skip: query.startIndex - Number(found.skipped),
      }
  }
  return { narrow: shown => shown.whereRaw('FALSE') }
}

/** Finds the block of ids in which a page of the members of one related record begins. */
async function seekMember(
  resource: Resource,
  query: PageQuery,
  members: RelatedFilter,
  on: Statements,
): Promise<PageSeek> {
  const [related] = await on.select(knex =>
    memberOfSql(knex, members).select({ exact: knex.raw(exactBlocksSql) }),
  )
  // NULL if the subquery was interrupted.
  if (!related?.exact) return {}
  return seekFrom(resource, query, memberIds(members.relation.to, Number(related.id)), on)
}

/** The values of some sort keys in one record, by their columns. */
type KeyValues = readonly (readonly [column: string, value: string | null])[]

/**
 * Restricts a query to the records that sort before those with these values. In ascending order, NULL sorts before all values.
 * @param descending the order. In the opposite one, the records after them are those before them
 * @param isInclusive whether those with these values are also among them
 */
function whereBefore(
  builder: Knex.QueryBuilder,
  [first, ...others]: KeyValues,
  descending: boolean,
  isInclusive: boolean,
): void {
  if (first === undefined) {
    if (!isInclusive) builder.whereRaw('FALSE')
    return
  }
  const [column, value] = first
  builder.where(either => {
    if (!descending && value !== null) either.whereNull(column)
    if (descending && value === null) either.whereNotNull(column)
    if (value !== null) either.orWhere(column, descending ? '>' : '<', value)
    either.orWhere(equal => {
      equal.where(column, value)
      whereBefore(equal, others, descending, isInclusive)
    })
  })
}

/**
 * Returns the first sort keys whose order an index has, in one direction: those of the unique index, or the first one. A
 * unique index with NULLs is not ordered by id after them.
 */
function indexedKeys({ unique }: Resource, sort: readonly SortKey[]): readonly SortKey[] {
  const isIndexed = unique.every(
    (column, at) => sort[at]?.column === column && sort[at].descending === sort[0]?.descending,
  )
  return sort.slice(0, isIndexed ? unique.length : 1)
}

/**
 * Restricts a page to the records from its first to its last one, by the first sort keys, so that only these are sorted. No index
 * provides the whole order.
 */
async function seekSorted(resource: Resource, query: PageQuery, on: Statements): Promise<PageSeek> {
  const { plural: table } = resource
  const { sort, startIndex, recordsPerPage } = query
  const columns = indexedKeys(resource, sort).map(({ column }) => column)
  const descending = sort[0]?.descending === true
  const valuesOf = (row: Columns): KeyValues =>
    columns.map(column => [`${table}.${column}`, readField(resource, column, row)])

  const page = await on.select(knex => {
    const ordered = knex(table).offset(startIndex).limit(recordsPerPage).select(columns)
    for (const column of columns) ordered.orderBy(column, descending ? 'desc' : 'asc')
    return ordered
  })
  const [first] = page
  const last = page.at(-1)
  if (first === undefined || last === undefined) return { narrow: shown => shown.whereRaw('FALSE') }
  const countEarlier = (knex: Knex) => {
    const counted = knex(table).count({ count: '*' })
    whereBefore(counted, valuesOf(first), descending, false)
    return counted
  }
  const [earlier] = startIndex === 0 ? [] : await on.select(countEarlier)
  return {
    narrow(shown) {
      whereBefore(shown, valuesOf(first), !descending, true)
      whereBefore(shown, valuesOf(last), descending, true)
    },
    skip: startIndex - Number(earlier?.count ?? 0),
  }
}

const isById = ({ column, descending }: SortKey) => column === 'id' && !descending

/** Whether the filters select at most as many records as they name: by id, or by the fields of the unique index. */
const selectsFew = ({ unique }: Resource, filters: readonly Filter[]): boolean => {
  const names = (column: string, operators: readonly string[]) =>
    filters.some(
      filter =>
        filter.relation === undefined &&
        filter.column === column &&
        operators.includes(filter.comparison.operator),
    )
  return names('id', ['equals', 'in']) || unique.every(column => names(column, ['equals']))
}

/** Whether the cost of a page does not grow with the number of records. */
export function isBounded(resource: Resource, { filters, search, sort }: PageQuery): boolean {
  const others = filters.filter(filter => filter !== membersFilter(filters))
  // A record of a list can have a thousand relations, and each filter may compare all of them.
  if (selectsFew(resource, filters)) return others.every(({ relation }) => relation === undefined)
  return sort.every(isById) && others.length === 0 && search.length === 0
}

/** Returns the preparatory query, to be run in the snapshot of the page; undefined if none is needed. */
export function seekFor(
  resource: Resource,
  query: PageQuery,
): ((on: Statements) => Promise<PageSeek>) | undefined {
  const { filters, search, sort, startIndex } = query
  if (search.length > 0) return undefined
  const isDeep = sort.every(isById) && startIndex >= SLOT_IDS
  if (isDeep && filters.length === 0) return on => seekFrom(resource, query, recordIds(resource), on)
  const members = membersFilter(filters)
  if (isDeep && filters.length === 1 && members !== undefined)
    return on => seekMember(resource, query, members, on)
  const [first] = sort
  if (filters.length > 0 || first === undefined || first.column === 'id') return undefined
  return sort.length > 1 || first.descending ? on => seekSorted(resource, query, on) : undefined
}
