// Preparatory queries for pages whose cost would otherwise grow with the number of records.
import { unavailable } from '../../core/api-error.ts'
import type { Resource } from '../../model/resource.ts'
import { SLOT_IDS } from '../counting/counts.ts'
import { exactBlocksSql } from '../counting/earlier-versions.ts'
import { type CountedIds, memberIds, recordIds, seekSql } from '../counting/seek.ts'
import type { Statements } from '../transaction.ts'
import type { Filter, PageQuery, PageSeek, SortKey } from './page-query.ts'
import { idOfMatching, memberOfSql, membersFilter, type RelatedFilter } from './predicates.ts'
import { seekSorted } from './sorted-seek.ts'

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
