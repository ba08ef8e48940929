// Finds the part of the ids in which a page begins, by the running sums of the counts.
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
 * Returns SQL that selects the `part`, a slot or a block, of the id at `index` (from 0) in the order of ids, and the number
 * of ids in earlier parts as `skipped`. The part is NULL if the index is past the end.
 */
export function seekSql(on: Knex, { where, column }: CountedIds, index: number): Knex.QueryBuilder {
  const amountsOf = (table: string) => on(table).where(where).select({ part: column }, 'amount')
  const amounts = amountsOf('counts').unionAll(amountsOf('count_changes'))
  // The rows of one part are peers in this window order, so each row has the sum up to the last of them.
  const running = on(amounts.as('amounts')).select(
    'part',
    on.raw('SUM(amount) OVER (ORDER BY part) AS reached'),
  )
  return on(running.as('running')).select(
    on.raw('MIN(CASE WHEN reached > ? THEN part END) AS part', [index]),
    on.raw('COALESCE(MAX(CASE WHEN reached <= ? THEN reached END), 0) AS skipped', [index]),
  )
}
