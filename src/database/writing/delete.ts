// Deletes records and their memberships.
import { type LimitedRelation, limitedRelations, type Resource } from '../../model/resource.ts'
import type { Row } from '../../model/row.ts'
import type { EndedMembership } from '../changes.ts'
import type { Database } from '../database.ts'
import { assertRowCount } from '../driver-errors.ts'
import type { Outcome, Result } from '../lane/outcome.ts'
import type { Item } from '../lane/writer.ts'
import type { Transaction } from '../transaction.ts'
import type { Precondition } from '../version.ts'
import { createRowLocks, rowKey } from './row-locks.ts'

/** Deletes one record if its version meets `precondition`. */
interface Deletion extends Item {
  readonly id: number
  readonly precondition?: Precondition | undefined
}

/**
 * Deletes a record.
 *
 * The members of a group can be millions. They are removed in portions, each in a transaction of its own, and
 * the group with the last one. Meanwhile, a reader sees the group with fewer and fewer members. Each of these
 * states is consistent: totals, filters and includes agree. After a failure, or if the version changes
 * meanwhile, the group remains with the members that are left, and can be deleted again. Members that are added
 * meanwhile are removed, too.
 */
export type Delete = (deletion: Deletion) => Promise<Result>

/** A portion takes less than a second, far less than the time limit of a statement. */
const PORTION_ROWS = 10_000

/** The memberships that end with a record. */
interface Side {
  /** The limited side of the relation. */
  readonly resource: Resource
  readonly relation: LimitedRelation
  /** The columns of the record that is deleted, and of the record on the other side. */
  readonly ownKey: string
  readonly otherKey: string
}

/**
 * @param resources all resources, which can have relations to `resource`
 * @param portionRows maximum number of members that one transaction removes
 */
export function createDelete(
  database: Database,
  resource: Resource,
  resources: readonly Resource[],
  portionRows = PORTION_ROWS,
): Delete {
  const { plural: table } = resource
  const lockRows = createRowLocks(resource, 'update')
  /** The memberships that the record itself has; their number is limited. */
  const limitedSides = limitedRelations(resource).map(
    (relation): Side => ({ ...relation, resource, relation }),
  )
  const memberSides = resources.flatMap(limited =>
    limitedRelations(limited)
      .filter(({ to }) => to === resource)
      .map((relation): Side => {
        const { ownKey, otherKey } = relation
        return { resource: limited, relation, ownKey: otherKey, otherKey: ownKey }
      }),
  )

  /**
   * Deletes pairs of the record. The lock on the record's row prevents new pairs. The locks on the pairs prevent a
   * concurrent transaction from deleting, and counting, the same ones.
   * @returns their number
   */
  async function deletePairs(trx: Transaction, side: Side, { id, origin }: Deletion, limit?: number) {
    const { ownKey, otherKey, relation } = side
    const { table } = relation
    const others: number[] = await trx.run(knex => {
      const selected = knex(table).where(ownKey, id).orderBy(otherKey).forUpdate().noWait()
      if (limit !== undefined) selected.limit(limit)
      return selected.pluck(otherKey)
    })
    const [first, last] = [others[0], others.at(-1)]
    if (first === undefined || last === undefined) return 0
    const deleted = await trx.run(knex =>
      knex(table).where(ownKey, id).whereBetween(otherKey, [first, last]).delete(),
    )
    assertRowCount(table, deleted, others.length)
    const isLimited = side.resource === resource
    const ended = { type: 'ended', resource: side.resource, relation, ending: resource, origin } as const
    trx.record(
      ...others.map((other): EndedMembership => {
        return isLimited ? { ...ended, id, otherId: other } : { ...ended, id: other, otherId: id }
      }),
    )
    return others.length
  }

  /** Removes a portion of the members. @returns whether all of them are removed */
  async function deleteMembers(trx: Transaction, deletion: Deletion): Promise<boolean> {
    for (const side of memberSides)
      if ((await deletePairs(trx, side, deletion, portionRows)) === portionRows) return false
    return true
  }

  /** @returns undefined if members are left */
  async function deletePortion(
    trx: Transaction,
    row: Row | undefined,
    deletion: Deletion,
  ): Promise<Outcome | undefined> {
    if (row === undefined) return 'not_found'
    const { id, precondition, origin } = deletion
    if (precondition?.(row.version) === false) return 'precondition_failed'
    if (!(await deleteMembers(trx, deletion))) return undefined
    for (const side of limitedSides) await deletePairs(trx, side, deletion)
    assertRowCount(table, await trx.run(knex => knex(table).where({ id }).delete()), 1)
    trx.record({ type: 'deleted', resource, id, before: row.version, after: undefined, origin })
    return { row, changed: true }
  }

  const { write } = database.createWriter<Deletion>({
    keysOf: ({ id }) => [rowKey(resource, id)],

    async apply(trx, items) {
      const { rows, skippedIds } = await lockRows(
        trx,
        items.map(({ id }) => id),
      )
      const results: (Result | 'locked')[] = []
      let isComplete = true
      for (const item of items) {
        if (skippedIds.has(item.id)) results.push('locked')
        else if (!isComplete) results.push([])
        else {
          const outcome = await deletePortion(trx, rows.get(item.id), item)
          if (typeof outcome === 'object') rows.delete(item.id)
          // A transaction ends after a portion: the records after this one come in the next one.
          isComplete = outcome !== undefined
          results.push(outcome === undefined ? [] : [outcome])
        }
      }
      return results
    },
  })

  return async deletion => {
    for (;;) {
      const result = await write(deletion)
      // Without an outcome, members are left.
      if (result.length > 0) return result
    }
  }
}
