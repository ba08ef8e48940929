// Preparatory queries for pages whose cost would otherwise grow with the number of records.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { type CountedIds, memberIds, recordIds, SLOT_IDS, seekSql } from '../counting/counts.ts'
import { hasExactBlocksSql } from '../counting/exact-blocks.ts'
import type { PageQuery, SortKey } from './page-query.ts'
import { idOfMatching, membersFilter, type RelatedFilter, relatedIdSql } from './predicates.ts'

/** The restrictions that make the page query faster. */
export interface PageSeek {
  /** Excludes records before or after the page. */
  readonly narrow?: (shown: Knex.QueryBuilder) => void
  /** The OFFSET of the narrowed query, if it differs from the page's start index. */
  readonly skip?: number
}

/** Restricts a page to the ids from the found part on. An OFFSET would read all earlier records. */
function seekFrom(
  found: { part: unknown; skipped: unknown } | undefined,
  { size }: CountedIds,
  idColumn: string,
  startIndex: number,
): PageSeek {
  if (found?.part == null) return { narrow: shown => shown.whereRaw('FALSE') }
  return {
    narrow: shown => shown.where(idColumn, '>=', Number(found.part) * size),
    skip: startIndex - Number(found.skipped),
  }
}

/** Finds the slot of ids in which a page of all records begins. */
async function seekRecord(resource: Resource, { startIndex }: PageQuery, trx: Knex): Promise<PageSeek> {
  const ids = recordIds(resource)
  const [found] = await seekSql(trx, ids, startIndex)
  return seekFrom(found, ids, `${resource.plural}.id`, startIndex)
}

/** Finds the block of ids in which a page of the members of one related record begins. */
async function seekMember(
  resource: Resource,
  { filters, startIndex }: PageQuery,
  members: RelatedFilter,
  trx: Knex,
): Promise<PageSeek> {
  const { relation, column, comparison } = members
  const [related] = column === 'id' ? [{ id: comparison.value }] : ((await relatedIdSql(trx, members)) ?? [])
  if (related === undefined) return {}
  const ids = memberIds(relation.to, Number(related.id))
  const [found] = await seekSql(trx, ids, startIndex).select({ exact: hasExactBlocksSql(trx) })
  // NULL if the subquery was interrupted.
  if (!found?.exact) return {}
  return seekFrom(found, ids, idOfMatching(resource, filters), startIndex)
}

/**
 * Finds the value of the first sort key at the end of the page, so that only records up to that value are
 * sorted. No index provides the whole order: several keys (a unique index with NULLs is not ordered by id
 * after them), or one descending key with ascending ids.
 */
async function bound(
  { plural: table }: Resource,
  query: PageQuery,
  { column, descending }: SortKey,
  trx: Knex,
): Promise<PageSeek> {
  const key = `${table}.${column}`
  const last: { value: string | null } | undefined = await trx(table)
    .orderBy(key, descending ? 'desc' : 'asc')
    .offset(query.startIndex + query.recordsPerPage - 1)
    .first({ value: key })
  const value = last?.value
  // The collection ends before the end of the page.
  if (value === undefined) return {}
  // NULL sorts before all values, so it is last in descending order.
  if (descending) return value === null ? {} : { narrow: shown => shown.where(key, '>=', value) }
  return {
    narrow: shown =>
      shown.where(first => {
        first.whereNull(key)
        if (value !== null) first.orWhere(key, '<=', value)
      }),
  }
}

const isById = ({ column, descending }: SortKey) => column === 'id' && !descending
const isDeep = ({ sort, startIndex }: PageQuery) => sort.every(isById) && startIndex >= SLOT_IDS

/** Returns the preparatory query, to be run in the snapshot of the page; undefined if none is needed. */
export function seekFor(
  resource: Resource,
  query: PageQuery,
): ((trx: Knex) => Promise<PageSeek>) | undefined {
  const { filters, sort } = query
  if (isDeep(query) && filters.length === 0) return trx => seekRecord(resource, query, trx)
  const members = membersFilter(filters)
  if (isDeep(query) && filters.length === 1 && members !== undefined)
    return trx => seekMember(resource, query, members, trx)
  const [first, ...others] = sort
  if (filters.length > 0 || first === undefined || first.column === 'id') return undefined
  return others.length > 0 || first.descending ? trx => bound(resource, query, first, trx) : undefined
}
