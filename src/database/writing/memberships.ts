// Adds and removes memberships. Each change also renews the version of the record, in the same transaction.
import type { Knex } from 'knex'
import type { LimitedRelation, Resource } from '../../model/resource.ts'
import type { Row } from '../../model/row.ts'
import { type Counts, memberChange } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { assertRowCount } from '../driver-errors.ts'
import { rowKey } from '../lock-queue.ts'
import { noteChange } from '../transaction.ts'
import { newVersion, type Precondition } from '../version.ts'
import { createRowLocks } from './row-locks.ts'

/** The outcome for one member. `unknown`: its id does not exist. `full`: the record is at its limit. */
export type Added = { readonly row: Row; readonly created: boolean } | 'unknown' | 'full'

/** Both functions return `changed` if the version of the record `own` does not meet `precondition`. */
export interface Memberships {
  /**
   * Adds the ids `others` to the record with the id `own`. Returns one outcome per id, in order; undefined if
   * `own` does not exist.
   * @param on the transaction to execute it in
   */
  add(
    own: number,
    others: readonly number[],
    precondition?: Precondition,
    on?: Knex.Transaction,
  ): Promise<Added[] | 'changed' | undefined>
  /** Removes one membership. `unknown`: `own` does not exist. `no member`: the membership does not exist. */
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
  relation: LimitedRelation,
  limit: number,
): Memberships {
  const { table, ownKey, otherKey, to } = relation
  const ownLocks = createRowLocks(database, resource)
  const otherLocks = createRowLocks(database, to)

  /** Locks the record's row. Every membership change does this first, to protect the limit and the version. */
  async function lock(
    trx: Knex.Transaction,
    id: number,
    precondition?: Precondition,
  ): Promise<Row | 'changed' | undefined> {
    const row = (await ownLocks.lockAll(trx, [id])).get(id)
    if (row === undefined) return undefined
    return precondition?.(row.version) === false ? 'changed' : row
  }

  async function renewVersion(trx: Knex.Transaction, { id, version: before }: Row): Promise<void> {
    const after = newVersion()
    const changed = await trx(resource.plural).where({ id }).update({ version: after })
    assertRowCount(resource.plural, changed, 1)
    noteChange(trx, { table: resource.plural, id, before, after })
  }

  async function add(
    trx: Knex.Transaction,
    own: number,
    others: readonly number[],
    precondition?: Precondition,
  ): Promise<Added[] | 'changed' | undefined> {
    const locked = await lock(trx, own, precondition)
    if (typeof locked !== 'object') return locked
    const rows = await otherLocks.lockAll(trx, others, 'share')
    const existing: number[] = await trx(table).where(ownKey, own).pluck(otherKey)
    const members = new Set(existing)
    const outcomes = others.map((id): Added => {
      const row = rows.get(id)
      if (row === undefined) return 'unknown'
      if (members.has(id)) return { row, created: false }
      if (members.size >= limit) return 'full'
      members.add(id)
      return { row, created: true }
    })
    const added = [...members].slice(existing.length)
    if (added.length > 0) {
      await trx(table).insert(added.map(id => ({ [ownKey]: own, [otherKey]: id })))
      await counts.record(
        trx,
        added.map(id => memberChange(to, id, 1)),
      )
      await renewVersion(trx, locked)
    }
    return outcomes
  }

  return {
    add: (own, others, precondition, on) =>
      on === undefined
        ? database.transaction(trx => add(trx, own, others, precondition), rowKey(resource.plural, own))
        : add(on, own, others, precondition),

    remove: (own, other, precondition) =>
      database.transaction(
        async trx => {
          const locked = await lock(trx, own, precondition)
          if (typeof locked !== 'object') return locked ?? 'unknown'
          const pair = trx(table).where({ [ownKey]: own, [otherKey]: other })
          const existing = await pair.clone().forUpdate().pluck(otherKey)
          if (existing.length === 0) return 'no member'
          assertRowCount(table, await pair.delete(), 1)
          await counts.record(trx, [memberChange(to, other, -1)])
          await renewVersion(trx, locked)
          return 'removed'
        },
        rowKey(resource.plural, own),
      ),
  }
}
