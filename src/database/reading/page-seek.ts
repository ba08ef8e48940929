// Pages that would cost the more, the more records there are: what is found out first, so that they do not.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { SLOT_IDS, seekSql } from '../counting/counts.ts'
import type { PageQuery, SortKey } from './page-query.ts'

/** What makes the records of a page quicker to find. */
export interface PageSeek {
  /** Leaves out what comes after the page, or before it. */
  readonly narrow?: (shown: Knex.QueryBuilder) => void
  /** How many to skip of what is left, if not as many as the page's start index says. */
  readonly skip?: number
}

/** Far into all records the counts say where a page begins: skipping them one by one would take longer and longer. */
async function seek(resource: Resource, { startIndex }: PageQuery, trx: Knex): Promise<PageSeek> {
  const [at] = await seekSql(trx, resource, startIndex)
  if (at?.slot == null) return { narrow: shown => shown.whereRaw('FALSE') }
  return {
    narrow: shown => shown.where(`${resource.plural}.id`, '>=', Number(at.slot) * SLOT_IDS),
    skip: startIndex - Number(at.skipped),
  }
}

/**
 * No index has the order of several keys (a unique one that may hold NULLs is not ordered by id behind them), or of one key
 * backwards and ids forwards. But that of the first key says which value the page does not go beyond, so that only what
 * comes before it has to be sorted.
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
  // There are fewer records than that.
  if (value === undefined) return {}
  // NULL comes before all values, so it is the last when descending.
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
const isDeep = ({ filters, sort, startIndex }: PageQuery) =>
  filters.length === 0 && sort.every(isById) && startIndex >= SLOT_IDS

/** Finds out, within the snapshot that the page will be read in, what makes that quick; undefined where nothing is needed. */
export function seekFor(
  resource: Resource,
  query: PageQuery,
): ((trx: Knex) => Promise<PageSeek>) | undefined {
  if (isDeep(query)) return trx => seek(resource, query, trx)
  const [first, ...others] = query.sort
  if (query.filters.length > 0 || first === undefined || first.column === 'id') return undefined
  return others.length > 0 || first.descending ? trx => bound(resource, query, first, trx) : undefined
}
