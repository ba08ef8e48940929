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
function totalFromCounts(on: Knex, resource: Resource, filter: Filter): Knex.Raw | undefined {
  const { relation, column, comparison } = filter
  const complement = complementOf(comparison)
  if (complement !== undefined) {
    const others = totalSql(on, resource, { filters: [{ ...filter, comparison: complement }] })
    return on.raw('? - (?)', [countSql(on, resource.plural), others])
  }
  if (relation !== undefined) {
    const members = membersFilter([filter])
    if (members === undefined) return undefined
    return countSql(on, membersKind(relation.to), slots => slots.where('slot', memberOfSql(on, members)))
  }
  if (column !== 'id') return undefined
  if (comparison.operator === 'above') return countBeyondSql(on, resource, '>', Number(comparison.value))
  if (comparison.operator === 'below') return countBeyondSql(on, resource, '<', Number(comparison.value))
  return undefined
}

function foundSql(on: Knex, resource: Resource, words: readonly string[]): Knex.Raw {
  const counts = searchQueries(on, resource, words).map(query => query.count('*'))
  return on.raw(counts.map(() => '?').join(' + '), counts)
}

/** Returns an SQL expression for the number of records of `resource` that `selection` selects. */
export function totalSql(on: Knex, resource: Resource, selection: Selection): Knex.Raw {
  const { search = [] } = selection
  const [filter, ...others] = selection.filters
  if (filter === undefined)
    return search.length === 0 ? countSql(on, resource.plural) : foundSql(on, resource, search)
  if (search.length === 0 && others.length === 0) {
    const total = totalFromCounts(on, resource, filter)
    if (total !== undefined) return total
  }
  return on.raw('?', [countMatching(on, resource, selection)])
}
