// Queries for the records that a selection selects: their ids, and their number.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import type { Selection, SortKey } from './page-query.ts'
import {
  applySort,
  compare,
  complementOf,
  idOfMatching,
  isRelated,
  matchesOneRelated,
  matching,
  type RelatedFilter,
} from './predicates.ts'

/** Returns the only filter of a selection, if it is on related records, and more than one of those of a record can match. */
function pairsFilter({ filters, search }: Selection): RelatedFilter | undefined {
  const [filter, ...others] = filters
  if (filter === undefined || others.length > 0 || search.length > 0 || !isRelated(filter)) return undefined
  return complementOf(filter.comparison) === undefined && !matchesOneRelated(filter) ? filter : undefined
}

const fromKeyOf = ({ relation: { table, fromKey } }: RelatedFilter): string => `${table}.${fromKey}`

/**
 * Returns a query for the pairs whose related record matches, without a select list. It finds them by the related records, or reads
 * the pairs in the order of their own records until a page is complete. With EXISTS, the database would sort all pairs that match.
 */
function pairsOf(knex: Knex, { relation: { table, toKey, to }, column, comparison }: RelatedFilter) {
  const related = compare(knex(to.plural), column, comparison)
    .select('id')
    // MariaDB executes the comment. Without the LIMIT, it would merge this query into the outer one, and sort the pairs.
    .whereRaw('TRUE /*M! LIMIT 18446744073709551615 */')
  return knex(table).whereIn(`${table}.${toKey}`, knex(related.as('related')).select('id'))
}

/** Returns a query for the ids of the records that `selection` selects, in the order of `sort`. */
export function idsMatching(
  knex: Knex,
  resource: Resource,
  selection: Selection,
  sort: readonly SortKey[],
): Knex.QueryBuilder {
  const pairs = sort.every(({ column }) => column === 'id') ? pairsFilter(selection) : undefined
  const id = pairs === undefined ? idOfMatching(resource, selection) : fromKeyOf(pairs)
  const ids =
    pairs === undefined ? matching(knex, resource, selection, sort) : pairsOf(knex, pairs).groupBy(id)
  applySort(ids, resource.plural, sort, id)
  return ids.select({ id })
}

/** Returns a query that counts the records that `selection` selects. */
export function countMatching(knex: Knex, resource: Resource, selection: Selection): Knex.QueryBuilder {
  const pairs = pairsFilter(selection)
  return pairs === undefined
    ? matching(knex, resource, selection, []).count('*')
    : pairsOf(knex, pairs).countDistinct(fromKeyOf(pairs))
}
