// The total of a collection: calculated from the counts if possible, otherwise counted record by record.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { countBeyondSql, countSql, membersKind } from '../counting/counts.ts'
import type { Filter, Selection } from './page-query.ts'
import { complementOf, memberOfSql, membersFilter } from './predicates.ts'
import { searchQueries } from './search.ts'
import { countMatching } from './selected.ts'

/**
 * Returns the total of complements, of id ranges and of the members of one related record; undefined for
 * filters whose total cannot be calculated from the counts.
 */
function totalFromCounts(knex: Knex, resource: Resource, filter: Filter): Knex.Raw | undefined {
  const { relation, column, comparison } = filter
  const complement = complementOf(comparison)
  if (complement !== undefined) {
    const others = totalSql(knex, resource, { filters: [{ ...filter, comparison: complement }], search: [] })
    return knex.raw('? - (?)', [countSql(knex, resource.plural), others])
  }
  if (relation !== undefined) {
    const members = membersFilter([filter])
    if (members === undefined) return undefined
    return countSql(knex, membersKind(relation.to), slots => slots.where('slot', memberOfSql(knex, members)))
  }
  if (column !== 'id') return undefined
  if (comparison.operator === 'above') return countBeyondSql(knex, resource, '>', Number(comparison.value))
  if (comparison.operator === 'below') return countBeyondSql(knex, resource, '<', Number(comparison.value))
  return undefined
}

function foundSql(knex: Knex, resource: Resource, words: readonly string[]): Knex.Raw {
  const counts = searchQueries(knex, resource, words).map(query => query.count('*'))
  return knex.raw(counts.map(() => '?').join(' + '), counts)
}

/** Returns an SQL expression for the number of records of `resource` that `selection` selects. */
export function totalSql(knex: Knex, resource: Resource, selection: Selection): Knex.Raw {
  const { filters, search } = selection
  const [filter, ...others] = filters
  if (filter === undefined)
    return search.length === 0 ? countSql(knex, resource.plural) : foundSql(knex, resource, search)
  if (search.length === 0 && others.length === 0) {
    const total = totalFromCounts(knex, resource, filter)
    if (total !== undefined) return total
  }
  return knex.raw('?', [countMatching(knex, resource, selection)])
}
