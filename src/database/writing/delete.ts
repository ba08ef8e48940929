// Deletes records and their memberships.
import { type LimitedRelation, limitedRelations, type Resource } from '../../model/resource.ts'
import type { Row } from '../../model/row.ts'
import type { Origin } from '../changes.ts'
import type { Database } from '../database.ts'
import { assertRowCount, isLocked } from '../driver-errors.ts'
import type { Outcome, Result } from '../lane/outcome.ts'
import type { Item } from '../lane/writer.ts'
import type { Transaction } from '../transaction.ts'
import type { Precondition } from '../version.ts'
import { createPortions, type Portions } from './portions.ts'
import { createClaim, createRowLocks, rowKey } from './row-locks.ts'

/** Deletes records, in the order of their ids, if their versions meet `precondition`. */
interface Deletion extends Item {
  readonly ids: readonly number[]
  readonly precondition?: Precondition | undefined
  readonly portions: Portions
}

/**
 * Deletes records. There is an outcome for each id; an id that comes twice is `not_found` the second time.
 *
 * The members of a group can be millions. They are removed in portions, each in a transaction of its own, and
 * the group with the last one. Meanwhile, a reader sees the group with fewer and fewer members. Each of these
 * states is consistent: totals, filters and includes agree. After a failure, or if the version changes
 * meanwhile, the group remains with the members that are left, and can be deleted again. Members that are added
 * meanwhile are removed, too. Several records share a transaction if their memberships fit into one portion.
 */
export type Delete = (deletion: Omit<Deletion, 'portions'>) => Promise<readonly Outcome[]>

/** A portion takes less than a second, far less than the time limit of a statement. */
const PORTION_ROWS = 10_000
const NO_LIMIT = Number.MAX_SAFE_INTEGER

/** The number of memberships that a transaction can remove, and how many of them are left. */
interface Portion {
  readonly size: number
  left: number
}

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
 * @param portionRows maximum number of members that one transaction removes. A record of the limited side, with all of its
 *   memberships, can exceed it.
 */
export function createDelete(
  database: Database,
  resource: Resource,
  resources: readonly Resource[],
  portionRows = PORTION_ROWS,
): Delete {
  const { plural: table } = resource
  const lockRows = createRowLocks(resource, 'update')
  const deleteSql = `DELETE FROM \`${table}\` WHERE id = ?`
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
  async function deletePairs(trx: Transaction, side: Side, id: number, origin: Origin, limit: number) {
    const { ownKey, otherKey, relation } = side
    const { table } = relation
    const lockSql = `SELECT ${otherKey} AS id FROM ${table} WHERE ${ownKey} = ? ORDER BY ${otherKey} LIMIT ? FOR UPDATE NOWAIT`
    const others = (await trx.query(lockSql, [id, limit])).map(row => Number(row.id))
    if (others.length === 0) return 0
    const unpairSql = `DELETE FROM ${table} WHERE ${ownKey} = ? AND ${otherKey} BETWEEN ? AND ?`
    assertRowCount(table, await trx.execute(unpairSql, [id, others[0], others.at(-1)]), others.length)
    const isLimited = side.resource === resource
    const ended = { type: 'ended', resource: side.resource, relation, ending: resource, origin } as const
    // One call with all of them could have more arguments than the stack can hold.
    for (const other of others)
      trx.record({ ...ended, ...(isLimited ? { id, otherId: other } : { id: other, otherId: id }) })
    return others.length
  }

  /** Whether a record has at least `count` members. */
  async function hasMembers(trx: Transaction, id: number, count: number): Promise<boolean> {
    for (const { ownKey, otherKey, relation } of memberSides) {
      const lastSql = `SELECT 1 FROM ${relation.table} WHERE ${ownKey} = ? ORDER BY ${otherKey} LIMIT 1 OFFSET ?`
      if ((await trx.query(lastSql, [id, count - 1])).length > 0) return true
    }
    return false
  }

  /** Removes members of a record. @returns whether all of them are removed */
  async function deleteMembers(trx: Transaction, id: number, origin: Origin, portion: Portion) {
    // Members that are removed before their record have events of their own. So the rest of a portion is left unused if the record
    // could be removed with all of them in the next one.
    if (portion.left < portion.size && (await hasMembers(trx, id, portion.left))) return false
    for (const side of memberSides) {
      const limit = portion.left
      const removed = await deletePairs(trx, side, id, origin, limit)
      portion.left -= removed
      if (removed === limit) return false
    }
    return true
  }

  /** @returns undefined if the record, or members of it, are left for the next transaction */
  async function deleteRow(
    trx: Transaction,
    id: number,
    row: Row | undefined,
    { precondition, origin }: Deletion,
    portion: Portion,
  ): Promise<Outcome | undefined> {
    if (row === undefined) return 'not_found'
    if (precondition?.(row.version) === false) return 'precondition_failed'
    if (portion.left <= 0 || !(await deleteMembers(trx, id, origin, portion))) return undefined
    for (const side of limitedSides) portion.left -= await deletePairs(trx, side, id, origin, NO_LIMIT)
    assertRowCount(table, await trx.execute(deleteSql, [id]), 1)
    trx.record({ type: 'deleted', resource, id, before: row.version, after: undefined, origin })
    return { row, changed: true }
  }

  const { write } = database.createWriter<Deletion>({
    keysOf: ({ ids }) => ids.map(id => rowKey(resource, id)),
    claim: createClaim(resource, ({ ids }) => ids),

    async apply(trx, items) {
      const { rows, skippedIds } = await lockRows(
        trx,
        items.flatMap(({ ids }) => ids),
        items.length === 1,
      )
      const free = new Set(items.filter(({ ids }) => !ids.some(id => skippedIds.has(id))))
      const size = Math.min(...Array.from(free, ({ portions }) => portions.begin()))
      const portion = { size, left: size }

      /** Returns the outcomes of the first records of an item: the next transaction deletes the others. */
      async function deleteRows(item: Deletion): Promise<Outcome[]> {
        const outcomes: Outcome[] = []
        for (const id of item.ids) {
          const outcome = await deleteRow(trx, id, rows.get(id), item, portion)
          if (outcome === undefined) break
          if (typeof outcome === 'object') rows.delete(id)
          outcomes.push(outcome)
        }
        return outcomes
      }

      const results: (Result | 'locked')[] = []
      try {
        for (const item of items) results.push(free.has(item) ? await deleteRows(item) : 'locked')
      } catch (error) {
        if (isLocked(error)) for (const { portions } of free) portions.onLocked()
        throw error
      }
      return results
    },
  })

  return async deletion => {
    const outcomes: Outcome[] = []
    const portions = createPortions(portionRows)
    while (outcomes.length < deletion.ids.length) {
      const result = await write({ ...deletion, ids: deletion.ids.slice(outcomes.length), portions })
      if (typeof result === 'string') throw new Error(`a deletion was refused: ${result}`)
      outcomes.push(...result)
      portions.onStored()
    }
    return outcomes
  }
}
