// Removing records, and with each its memberships.
import type { Knex } from 'knex'
import { type Resource, readRow } from '../resources/definition.ts'
import { type CountChange, type Counts, memberChange, recordChange } from './counts.ts'
import type { Database } from './database.ts'
import { type Precondition, renewGeneration } from './version.ts'

export interface Removing {
  /** `changed`: `precondition` does not hold for its version. Undefined: there is no such id. */
  remove(id: number, precondition?: Precondition): Promise<'removed' | 'changed' | undefined>
}

export function createRemoving(database: Database, counts: Counts, resource: Resource): Removing {
  const { plural: table, relation } = resource

  /** Those that lose a member with it. Its row is locked, so there will be no more of them. */
  async function leavings(trx: Knex.Transaction, id: number): Promise<CountChange[]> {
    if (relation === undefined) return []
    const others: number[] = await trx(relation.table).where(relation.ownKey, id).pluck(relation.otherKey)
    return others.map(other => memberChange(relation.to, other, -1))
  }

  return {
    remove: (id, precondition) =>
      database.transaction(async trx => {
        const found = await trx(table).where({ id }).forUpdate().first('id', 'version')
        if (found === undefined) return undefined
        if (precondition?.(readRow(found).version) === false) return 'changed'
        const left = await leavings(trx, id)
        await trx(table).where({ id }).delete()
        await counts.record(trx, [recordChange(resource, id, -1), ...left])
        if (resource.generation !== undefined) await counts.forgetMembers(trx, resource, id)
        await renewGeneration(trx, resource)
        return 'removed'
      }),
  }
}
