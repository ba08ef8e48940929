// Deletes records, and with each its memberships.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { readRow } from '../../model/row.ts'
import { type CountChange, type Counts, memberChange, recordChange } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { contentionError } from '../driver-errors.ts'
import { type Precondition, renewGeneration } from '../version.ts'

/** `changed`: `precondition` does not hold for its version. Undefined: there is no such id. */
export type Delete = (id: number, precondition?: Precondition) => Promise<'removed' | 'changed' | undefined>

export function createDelete(database: Database, counts: Counts, resource: Resource): Delete {
  const { plural: table, relation } = resource

  /** Takes it out of all that it is in. Its row is locked, so nothing is added, and the pairs, so nobody else does it. */
  async function leaveAll(trx: Knex.Transaction, id: number): Promise<CountChange[]> {
    if (relation === undefined) return []
    const pairs = trx(relation.table).where(relation.ownKey, id)
    const others: number[] = await pairs.clone().forUpdate().pluck(relation.otherKey)
    if (others.length > 0) await pairs.delete()
    return others.map(other => memberChange(relation.to, other, -1))
  }

  return (id, precondition) =>
    database.transaction(async trx => {
      const found = await trx(table).where({ id }).forUpdate().first('id', 'version')
      if (found === undefined) return undefined
      if (precondition?.(readRow(found).version) === false) return 'changed'
      const left = await leaveAll(trx, id)
      // MySQL 9.7 may delete nothing, and not say why, while others are at work on what goes with it.
      if ((await trx(table).where({ id }).delete()) === 0)
        throw contentionError(`${table} ${id} was not deleted`)
      await counts.record(trx, [recordChange(resource, id, -1), ...left])
      if (resource.generation !== undefined) await counts.forgetMembers(trx, resource, id)
      await renewGeneration(trx, resource)
      return 'removed'
    })
}
