// The memberships that end with the records that a transaction deletes.
import type { Relation, Resource } from '../../model/resource.ts'
import type { Row } from '../../model/row.ts'
import type { Origin } from '../changes.ts'
import { assertRowCount } from '../driver-errors.ts'
import { deleteListedSql, listedRows } from '../listed-rows.ts'
import type { Transaction } from '../transaction.ts'

/** A record that a request deletes. */
export interface Deletable {
  readonly row: Row
  readonly origin: Origin
}

/** One side of a relation, to which the deleted records belong. */
interface Side {
  /** The limited side of the relation. */
  readonly limited: Resource
  readonly relation: Relation
  /** The columns of the record that is deleted, and of the record on the other side. */
  readonly ownKey: string
  readonly otherKey: string
}

/** Memberships of one side. */
interface Ended {
  readonly side: Side
  readonly pairs: readonly { readonly owner: Deletable; readonly other: number }[]
}

const NO_LIMIT = Number.MAX_SAFE_INTEGER

/**
 * Returns a function that removes all memberships of records, which are locked. If several records have `limit` memberships or
 * more, it removes none and returns false. If one record has as many members, it removes this number of them and returns false.
 * @param resources all resources, which can have relations to `resource`
 */
export function createEndMemberships(resource: Resource, resources: readonly Resource[]) {
  /** The members of a record. */
  const memberSides = resources.flatMap(limited =>
    limited.relations
      .filter(({ to }) => to === resource)
      .map((relation): Side => {
        const { ownKey, otherKey } = relation
        return { limited, relation, ownKey: otherKey, otherKey: ownKey }
      }),
  )
  /** The memberships that the record itself has; their number is limited. */
  const ownSides = resource.relations.map((relation): Side => ({ ...relation, limited: resource, relation }))

  function record(trx: Transaction, { side, pairs }: Ended): void {
    const { limited, relation } = side
    for (const { owner, other } of pairs) {
      const { row, origin } = owner
      const [id, otherId] = limited === resource ? [row.id, other] : [other, row.id]
      trx.record({ type: 'ended', resource: limited, relation, ending: resource, id, otherId, origin })
    }
  }

  /**
   * Locks the memberships of records. The locks on the rows of the records prevent new ones. These locks prevent a concurrent
   * transaction from deleting, and counting, the same ones.
   * @returns undefined if there are `limit` or more
   */
  async function lock(trx: Transaction, records: readonly Deletable[], limit: number) {
    const owners = new Map(records.map(owner => [owner.row.id, owner]))
    const ids = [...owners.keys()]
    const ended: Ended[] = []
    let left = limit
    for (const side of [...memberSides, ...ownSides]) {
      const { limited, relation, ownKey, otherKey } = side
      const max = limited === resource && ids.length === 1 ? NO_LIMIT : left
      const lockSql = `SELECT listed.id AS own, ${otherKey} AS other FROM ${listedRows(['id'], ids.length)} AS listed
        STRAIGHT_JOIN ${relation.table} ON ${ownKey} = listed.id LIMIT ? FOR UPDATE NOWAIT`
      const rows = await trx.query(lockSql, [...ids, max])
      if (rows.length === max) return undefined
      left -= rows.length
      const pairs = rows.flatMap(({ own, other }) => {
        const owner = owners.get(Number(own))
        return owner === undefined ? [] : { owner, other: Number(other) }
      })
      ended.push({ side, pairs })
    }
    return ended
  }

  /** Removes the first `limit` members of a record. */
  async function removeMembers(trx: Transaction, owner: Deletable, limit: number): Promise<void> {
    const { id } = owner.row
    let left = limit
    for (const side of memberSides) {
      const { relation, ownKey, otherKey } = side
      const { table } = relation
      const lockSql = `SELECT ${otherKey} AS other FROM ${table} WHERE ${ownKey} = ? ORDER BY ${otherKey} LIMIT ? FOR UPDATE NOWAIT`
      const others = (await trx.query(lockSql, [id, left])).map(({ other }) => Number(other))
      if (others.length === 0) continue
      const removeSql = `DELETE FROM ${table} WHERE ${ownKey} = ? AND ${otherKey} BETWEEN ? AND ?`
      assertRowCount(table, await trx.execute(removeSql, [id, others[0], others.at(-1)]), others.length)
      record(trx, { side, pairs: others.map(other => ({ owner, other })) })
      left -= others.length
    }
  }

  return async (trx: Transaction, records: readonly Deletable[], limit: number): Promise<boolean> => {
    const ended = await lock(trx, records, limit)
    const [first, ...others] = records
    if (ended === undefined) {
      if (first !== undefined && others.length === 0) await removeMembers(trx, first, limit)
      return false
    }
    for (const { side, pairs } of ended) {
      if (pairs.length === 0) continue
      const { relation, ownKey } = side
      const ids = [...new Set(pairs.map(({ owner }) => owner.row.id))]
      const removed = await trx.execute(deleteListedSql(relation.table, [ownKey], ids.length), ids)
      assertRowCount(relation.table, removed, pairs.length)
      record(trx, { side, pairs })
    }
    return true
  }
}
