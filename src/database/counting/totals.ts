// How many records a collection has in all: looked up where the counts know it, counted one by one where they do not.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import type { Filter } from '../reading/page-query.ts'
import { matching, opposite, theOne } from '../reading/predicates.ts'
import { countBeyondSql, countSql, membersKind } from './counts.ts'

/** All but few, those above or below an id, the members of one; undefined for what has to be counted. */
function lookUp(on: Knex, resource: Resource, filter: Filter): Knex.Raw | undefined {
  const { related, column, comparison } = filter
  const denied = opposite(comparison)
  if (denied !== undefined) {
    const others = totalSql(on, resource, [{ ...filter, comparison: denied }])
    return on.raw('? - (?)', [countSql(on, resource.plural), others])
  }
  const { relation } = resource
  if (related) {
    const one = relation && theOne(on, relation, filter)
    return one && countSql(on, membersKind(relation.to), slots => slots.where('slot', one))
  }
  if (column !== 'id') return undefined
  if (comparison.operator === 'above') return countBeyondSql(on, resource, '>', Number(comparison.value))
  if (comparison.operator === 'below') return countBeyondSql(on, resource, '<', Number(comparison.value))
  return undefined
}

/** SQL, an expression: how many records of `resource` all `filters` allow. */
export function totalSql(on: Knex, resource: Resource, filters: readonly Filter[]): Knex.Raw {
  const [filter, ...others] = filters
  if (filter === undefined) return countSql(on, resource.plural)
  const known = others.length === 0 ? lookUp(on, resource, filter) : undefined
  return known ?? on.raw('?', [matching(on, resource, filters).count('*')])
}
