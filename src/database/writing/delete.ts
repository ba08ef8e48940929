// Deletes records and their memberships.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { type CountChange, type Counts, memberChange, recordChange } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { contentionError } from '../driver-errors.ts'
import { type Precondition, renewGeneration } from '../version.ts'
import { createRowLocks } from './row-locks.ts'

/**
 * Deletes a record. `changed`: its version does not meet `precondition`. Undefined: the id does not exist.
 */
export type Delete = (id: number, precondition?: Precondition) => Promise<'removed' | 'changed' | undefined>

export function createDelete(database: Database, counts: Counts, resource: Resource): Delete {
  const { plural: table, relation } = resource
  const { lockAll } = createRowLocks(database, resource)

  /**
   * Deletes the memberships of the record. The lock on its row prevents new ones. The locks on the pairs
   * prevent a concurrent transaction from deleting, and counting, the same pairs.
   */
  async function deleteMemberships(trx: Knex.Transaction, id: number): Promise<CountChange[]> {
    if (relation === undefined) return []
    const pairs = trx(relation.table).where(relation.ownKey, id)
    const otherIds: number[] = await pairs.clone().forUpdate().pluck(relation.otherKey)
    if (otherIds.length > 0) await pairs.delete()
    return otherIds.map(otherId => memberChange(relation.to, otherId, -1))
  }

  return (id, precondition) =>
    database.transaction(async trx => {
      const row = (await lockAll(trx, [id])).get(id)
      if (row === undefined) return undefined
      if (precondition?.(row.version) === false) return 'changed'
      const memberChanges = await deleteMemberships(trx, id)
      // MySQL 9.7 may delete no row, without an error, while other transactions change cascading rows.
      if ((await trx(table).where({ id }).delete()) === 0)
        throw contentionError(`row ${id} of ${table} was not deleted`)
      await counts.record(trx, [recordChange(resource, id, -1), ...memberChanges])
      if (resource.generation !== undefined) await counts.deleteMemberCount(trx, resource, id)
      await renewGeneration(trx, resource)
      return 'removed'
    })
}
