// Finds the range of ids in which a page begins, by the running sums of the counts.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { BLOCK_IDS, membersKind, SLOT_IDS } from './counts.ts'

/** Counts whose running sums give the positions of ids. */
export interface CountedIds {
  readonly where: { readonly kind: string; readonly slot?: number }
  /** The column that has the range of ids, and the number of ids per range. */
  readonly column: 'slot' | 'block'
  readonly size: number
}

export const recordIds = ({ plural }: Resource): CountedIds => ({
  where: { kind: plural },
  column: 'slot',
  size: SLOT_IDS,
})

/** The ids of the members of the record of `resource` with this `id`. */
export const memberIds = (resource: Resource, id: number): CountedIds => ({
  where: { kind: membersKind(resource), slot: id },
  column: 'block',
  size: BLOCK_IDS,
})

/**
 * Returns SQL that selects the `id_range`, a slot or a block, of the id at `index` (from 0) in the order of ids, and the number
 * of ids in earlier ranges as `skipped`. The search begins with the first range that can contain the index, because no range
 * has more than `size` ids. The range is NULL if it is not among the next `maxRanges`; `id_ranges` is 0 if none of these has counts.
 * `total` is the number of all ids.
 */
export function seekSql(
  knex: Knex,
  { where, column, size }: CountedIds,
  index: number,
  maxRanges: number,
): Knex.QueryBuilder {
  const first = Math.floor(index / size)
  const countsIn = (table: string, operator: string, range: number) =>
    knex(table).where(where).where(column, operator, range)
  const sumsOf = (operator: string) =>
    ['counts', 'count_changes'].map(table =>
      countsIn(table, operator, first).select(knex.raw('COALESCE(SUM(amount), 0)')),
    )
  const amountsOf = (table: string) =>
    countsIn(table, '>=', first)
      .where(column, '<', first + maxRanges)
      .select({ id_range: column }, 'amount')
  const earlier = knex.raw('? + ? AS earlier', sumsOf('<'))
  const amounts = amountsOf('counts').unionAll(amountsOf('count_changes'))
  // The rows of one range are peers in this window order, so each row has the sum up to the last of them.
  const counted = knex.raw('SUM(amount) OVER (ORDER BY id_range) AS counted')
  const running = knex(amounts.as('amounts')).select('id_range', earlier, counted)
  const reached = knex(running.as('running')).select(
    'id_range',
    'earlier',
    knex.raw('earlier + counted AS reached'),
  )
  return knex(reached.as('reached')).select(
    knex.raw('MIN(CASE WHEN reached > ? THEN id_range END) AS id_range', [index]),
    knex.raw('COALESCE(MAX(CASE WHEN reached <= ? THEN reached END), MIN(earlier)) AS skipped', [index]),
    knex.raw('MIN(earlier) + ? + ? AS total', sumsOf('>=')),
    knex.raw('COUNT(*) AS id_ranges'),
  )
}
