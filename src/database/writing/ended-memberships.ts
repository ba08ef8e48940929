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
  /** The columns of the record that is deleted, and of the record that remains. */
  readonly deletedKey: string
  readonly remainingKey: string
}

/** Memberships of one side. */
interface Ended {
  readonly side: Side
  readonly pairs: readonly { readonly deleted: Deletable; readonly remaining: number }[]
}

const NO_LIMIT = Number.MAX_SAFE_INTEGER

/** @param resources all resources, which can have relations to `resource` */
export function createEndMemberships(resource: Resource, resources: readonly Resource[]) {
  /** The members of a record. */
  const memberSides = resources.flatMap(limited =>
    limited.relations
      .filter(({ to }) => to === resource)
      .map((relation): Side => {
        const { fromKey, toKey } = relation
        return { limited, relation, deletedKey: toKey, remainingKey: fromKey }
      }),
  )
  /** The memberships that the record itself has; their number is limited. */
  const limitedSides = resource.relations.map((relation): Side => {
    const { fromKey, toKey } = relation
    return { limited: resource, relation, deletedKey: fromKey, remainingKey: toKey }
  })

  function record(trx: Transaction, { side, pairs }: Ended): void {
    const { limited, relation } = side
    for (const { deleted, remaining } of pairs) {
      const { row, origin } = deleted
      const [id, otherId] = limited === resource ? [row.id, remaining] : [remaining, row.id]
      trx.record({ type: 'ended', resource: limited, relation, ending: resource, id, otherId, origin })
    }
  }

  /**
   * Locks the memberships of records. The locks on the rows of the records prevent new ones. These locks prevent a concurrent
   * transaction from deleting, and counting, the same ones.
   * @returns undefined if there are `limit` or more
   */
  async function lock(trx: Transaction, records: readonly Deletable[], limit: number) {
    const byId = new Map(records.map(record => [record.row.id, record]))
    const ids = [...byId.keys()]
    const ended: Ended[] = []
    let left = limit
    for (const side of [...memberSides, ...limitedSides]) {
      const { limited, relation, deletedKey, remainingKey } = side
      const max = limited === resource && ids.length === 1 ? NO_LIMIT : left
      const lockSql = `SELECT listed.id AS deleted, ${remainingKey} AS remaining FROM ${listedRows(['id'], ids.length)} AS listed
        STRAIGHT_JOIN ${relation.table} ON ${deletedKey} = listed.id LIMIT ? FOR UPDATE NOWAIT`
      const rows = await trx.query(lockSql, [...ids, max])
      if (rows.length === max) return undefined
      left -= rows.length
      const pairs = rows.flatMap(row => {
        const deleted = byId.get(Number(row.deleted))
        return deleted === undefined ? [] : { deleted, remaining: Number(row.remaining) }
      })
      ended.push({ side, pairs })
    }
    return ended
  }

  return {
    /** Removes all memberships of records, which are locked; none if they have `limit` members or more. @returns whether it has removed them */
    async removeAll(trx: Transaction, records: readonly Deletable[], limit: number): Promise<boolean> {
      const ended = await lock(trx, records, limit)
      if (ended === undefined) return false
      for (const { side, pairs } of ended) {
        if (pairs.length === 0) continue
        const { relation, deletedKey } = side
        const ids = [...new Set(pairs.map(({ deleted }) => deleted.row.id))]
        const removed = await trx.execute(deleteListedSql(relation.table, [deletedKey], ids.length), ids)
        assertRowCount(relation.table, removed, pairs.length)
        record(trx, { side, pairs })
      }
      return true
    },

    /** Removes the first `limit` members of a record, which is locked. */
    async removeMembers(trx: Transaction, deleted: Deletable, limit: number): Promise<void> {
      const { id } = deleted.row
      let left = limit
      for (const side of memberSides) {
        const { relation, deletedKey, remainingKey } = side
        const { table } = relation
        const lockSql = `SELECT ${remainingKey} AS remaining FROM ${table} WHERE ${deletedKey} = ?
          ORDER BY ${remainingKey} LIMIT ? FOR UPDATE NOWAIT`
        const members = (await trx.query(lockSql, [id, left])).map(({ remaining }) => Number(remaining))
        if (members.length === 0) continue
        const removeSql = `DELETE FROM ${table} WHERE ${deletedKey} = ? AND ${remainingKey} BETWEEN ? AND ?`
        assertRowCount(table, await trx.execute(removeSql, [id, members[0], members.at(-1)]), members.length)
        record(trx, { side, pairs: members.map(remaining => ({ deleted, remaining })) })
        left -= members.length
      }
    },
  }
}
