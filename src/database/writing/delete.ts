// Deletes records and their memberships.
import { limitedRelations, type Relation, type Resource } from '../../model/resource.ts'
import { type CountChange, type Counts, memberChange, recordChange } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { assertRowCount } from '../driver-errors.ts'
import { lockedAs, rowKey } from '../lock-queue.ts'
import type { Transaction } from '../transaction.ts'
import { type Precondition, renewGeneration } from '../version.ts'
import { createRowLocks } from './row-locks.ts'

/**
 * Deletes a record. `changed`: its version does not meet `precondition`. Undefined: the id does not exist.
 *
 * The members of a group can be millions. They are removed in portions, each in a transaction of its own, and
 * the group with the last one. Meanwhile, a reader sees the group with fewer and fewer members. Each of these
 * states is consistent: totals, filters and includes agree. After a failure, or if the version changes
 * meanwhile, the group remains with the members that are left, and can be deleted again. Members that are added
 * meanwhile are removed, too.
 */
export type Delete = (id: number, precondition?: Precondition) => Promise<'removed' | 'changed' | undefined>

/** A portion takes less than a second, far less than the time limit of a statement. */
const PORTION_ROWS = 10_000

/** The pairs of a relation, as seen from the record whose id is in `ownKey`. */
type Side = Pick<Relation, 'table' | 'ownKey' | 'otherKey'>

/**
 * @param resources all resources, which can have relations to `resource`
 * @param portionRows maximum number of members that one transaction removes
 */
export function createDelete(
  database: Database,
  counts: Counts,
  resource: Resource,
  resources: readonly Resource[],
  portionRows = PORTION_ROWS,
): Delete {
  const { plural: table } = resource
  const relations = limitedRelations(resource)
  const { lockAll } = createRowLocks(resource)
  const memberSides = resources
    .flatMap(limitedRelations)
    .filter(({ to }) => to === resource)
    .map(({ table, ownKey, otherKey }): Side => ({ table, ownKey: otherKey, otherKey: ownKey }))

  /**
   * Deletes pairs of the record and returns the ids on their other side. The lock on the record's row prevents
   * new pairs. The locks on the pairs prevent a concurrent transaction from deleting, and counting, the same ones.
   */
  async function deletePairs(
    trx: Transaction,
    { table, ownKey, otherKey }: Side,
    id: number,
    limit?: number,
  ): Promise<number[]> {
    const selecting = trx.run(knex => {
      const selected = knex(table).where(ownKey, id).orderBy(otherKey).forUpdate()
      if (limit !== undefined) selected.limit(limit)
      if (!trx.mayWait) selected.noWait()
      return selected.pluck(otherKey)
    })
    const ids: number[] = await lockedAs(`${table} ${ownKey} ${id}`, selecting)
    const [first, last] = [ids[0], ids.at(-1)]
    if (first !== undefined && last !== undefined)
      assertRowCount(
        table,
        await trx.run(knex => knex(table).where(ownKey, id).whereBetween(otherKey, [first, last]).delete()),
        ids.length,
      )
    return ids
  }

  /** Removes a portion of the members. @returns whether all of them are removed */
  async function deleteMembers(trx: Transaction, id: number): Promise<boolean> {
    for (const side of memberSides) {
      const members = await deletePairs(trx, side, id, portionRows)
      const changes = members.map(member => memberChange(resource, id, member, -1))
      await counts.record(trx, changes)
      if (members.length === portionRows) return false
    }
    return true
  }

  /** Deletes the memberships that the record itself has; their number is limited. */
  async function deleteMemberships(trx: Transaction, id: number): Promise<CountChange[]> {
    const changes: CountChange[] = []
    for (const relation of relations) {
      const others = await deletePairs(trx, relation, id)
      changes.push(...others.map(other => memberChange(relation.to, other, id, -1)))
    }
    return changes
  }

  async function deletePortion(
    trx: Transaction,
    id: number,
    precondition?: Precondition,
  ): Promise<'removed' | 'changed' | 'members left' | undefined> {
    const row = (await lockAll(trx, [id])).get(id)
    if (row === undefined) return undefined
    if (precondition?.(row.version) === false) return 'changed'
    const complete = await deleteMembers(trx, id)
    if (complete) {
      const memberChanges = await deleteMemberships(trx, id)
      assertRowCount(table, await trx.run(knex => knex(table).where({ id }).delete()), 1)
      await counts.record(trx, [recordChange(resource, id, -1), ...memberChanges])
      if (resource.generation !== undefined) await counts.deleteMemberCount(trx, resource, id)
      trx.noteChange({ table, id, before: row.version, after: undefined })
    }
    await renewGeneration(trx, resource)
    return complete ? 'removed' : 'members left'
  }

  return async (id, precondition) => {
    for (;;) {
      const act = (trx: Transaction) => deletePortion(trx, id, precondition)
      const outcome = await database.transaction(act, rowKey(table, id))
      if (outcome !== 'members left') return outcome
    }
  }
}
