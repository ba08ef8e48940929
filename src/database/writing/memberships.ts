// Who is in what: changes to a relation, each in one transaction that also renews the version of the record it belongs to.
import type { Knex } from 'knex'
import type { Relation, Resource } from '../../model/resource.ts'
import { type Row, readRow } from '../../model/row.ts'
import { type Counts, memberChange } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { newVersion, type Precondition } from '../version.ts'

/** `unknown`: there is nothing with this id. `full`: the record has as many as it may have. */
export type Added = { readonly row: Row; readonly created: boolean } | 'unknown' | 'full'

/** Both end with `changed` where `precondition` does not hold for the version of the record `own`. */
export interface Memberships {
  /**
   * One outcome for each of `others`, in their order; undefined where there is no record with the id `own`.
   * @param on a transaction that it is to be part of
   */
  add(
    own: number,
    others: readonly number[],
    precondition?: Precondition,
    on?: Knex.Transaction,
  ): Promise<Added[] | 'changed' | undefined>
  /** Which of the two was not there, or `removed`. */
  remove(
    own: number,
    other: number,
    precondition?: Precondition,
  ): Promise<'removed' | 'changed' | 'unknown' | 'no member'>
}

export function createMemberships(
  database: Database,
  counts: Counts,
  resource: Resource,
  relation: Relation,
  limit: number,
): Memberships {
  const { table, ownKey, otherKey, to } = relation
  const otherColumns = ['id', 'version', ...Object.keys(to.fields)]

  /** Whoever changes the memberships of a record holds its row: so the limit holds, and the version is right. */
  async function lock(
    trx: Knex,
    id: number,
    precondition?: Precondition,
  ): Promise<'locked' | 'changed' | undefined> {
    const found: unknown = await trx(resource.plural).where({ id }).forUpdate().first('id', 'version')
    if (found === undefined) return undefined
    return precondition?.(readRow(found).version) === false ? 'changed' : 'locked'
  }

  const renewVersion = (trx: Knex, id: number) =>
    trx(resource.plural).where({ id }).update({ version: newVersion() })

  async function add(
    trx: Knex.Transaction,
    own: number,
    others: readonly number[],
    precondition?: Precondition,
  ): Promise<Added[] | 'changed' | undefined> {
    const locked = await lock(trx, own, precondition)
    if (locked !== 'locked') return locked
    const found: unknown[] = await trx(to.plural)
      .whereIn('id', [...others])
      .forShare()
      .select(otherColumns)
    const rows = new Map(found.map(readRow).map(row => [row.id, row]))
    const had: number[] = await trx(table).where(ownKey, own).pluck(otherKey)
    const members = new Set(had)
    const outcomes = others.map((id): Added => {
      const row = rows.get(id)
      if (row === undefined) return 'unknown'
      if (members.has(id)) return { row, created: false }
      if (members.size >= limit) return 'full'
      members.add(id)
      return { row, created: true }
    })
    const added = [...members].slice(had.length)
    if (added.length > 0) {
      await trx(table).insert(added.map(id => ({ [ownKey]: own, [otherKey]: id })))
      await counts.record(
        trx,
        added.map(id => memberChange(to, id, 1)),
      )
      await renewVersion(trx, own)
    }
    return outcomes
  }

  return {
    add: (own, others, precondition, on) =>
      on === undefined
        ? database.transaction(trx => add(trx, own, others, precondition))
        : add(on, own, others, precondition),

    remove: (own, other, precondition) =>
      database.transaction(async trx => {
        const locked = await lock(trx, own, precondition)
        if (locked !== 'locked') return locked ?? 'unknown'
        const removed = await trx(table)
          .where({ [ownKey]: own, [otherKey]: other })
          .delete()
        if (removed === 0) return 'no member'
        await counts.record(trx, [memberChange(to, other, -1)])
        await renewVersion(trx, own)
        return 'removed'
      }),
  }
}
