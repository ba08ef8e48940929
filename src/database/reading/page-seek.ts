// Preparatory queries for pages whose cost would otherwise grow with the number of records.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { SLOT_IDS, seekSql } from '../counting/counts.ts'
import { totalSql } from '../counting/totals.ts'
import type { PageQuery, SortKey } from './page-query.ts'
import { membersFilter } from './predicates.ts'

/** The restrictions that make the page query faster. */
export interface PageSeek {
  /** Excludes records before or after the page. */
  readonly narrow?: (shown: Knex.QueryBuilder) => void
  /** The OFFSET of the narrowed query, if it differs from the page's start index. */
  readonly skip?: number
  /** Reads this number of records in the opposite order, from the end. */
  readonly lastRecords?: number
}

/** Finds the slot of ids in which a page of all records begins. An OFFSET would read all earlier records. */
async function seek(resource: Resource, { startIndex }: PageQuery, trx: Knex): Promise<PageSeek> {
  const [found] = await seekSql(trx, resource, startIndex)
  if (found?.slot == null) return { narrow: shown => shown.whereRaw('FALSE') }
  return {
    narrow: shown => shown.where(`${resource.plural}.id`, '>=', Number(found.slot) * SLOT_IDS),
    skip: startIndex - Number(found.skipped),
  }
}

/** Reads a page in the second half of the members of one related record from the end: an OFFSET reads all before it. */
async function fromEnd(
  resource: Resource,
  { filters, startIndex, recordsPerPage }: PageQuery,
  trx: Knex,
): Promise<PageSeek> {
  const counted: { total: unknown } | undefined = await trx
    .select(trx.raw('? AS total', [totalSql(trx, resource, filters)]))
    .first()
  // NULL if the subquery was interrupted.
  if (counted?.total == null) return {}
  const after = Math.max(0, Number(counted.total) - startIndex)
  if (after > startIndex) return {}
  const lastRecords = Math.min(recordsPerPage, after)
  return { lastRecords, skip: after - lastRecords }
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
  if (isDeep(query) && filters.length === 0) return trx => seek(resource, query, trx)
  if (isDeep(query) && filters.length === 1 && membersFilter(filters) !== undefined)
    return trx => fromEnd(resource, query, trx)
  const [first, ...others] = sort
  if (filters.length > 0 || first === undefined || first.column === 'id') return undefined
  return others.length > 0 || first.descending ? trx => bound(resource, query, first, trx) : undefined
}
