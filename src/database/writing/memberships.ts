// Adds and removes memberships. Each change also renews the version of the record, in the same transaction.
import type { LimitedRelation, Resource } from '../../model/resource.ts'
import type { Row } from '../../model/row.ts'
import { type Counts, memberChange } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { assertRowCount } from '../driver-errors.ts'
import { rowKey } from '../lock-queue.ts'
import type { Transaction } from '../transaction.ts'
import { newVersion, type Precondition } from '../version.ts'
import { createRowLocks } from './row-locks.ts'

/**
 * The outcome for one added record, with its row as before the change. `unknown`: its id does not exist. `full`: the
 * record of the limited side has as many memberships as it can have.
 */
export type Added = { readonly row: Row; readonly created: boolean } | 'unknown' | 'full'

/**
 * Adds the ids `added` of one side of the relation to the record with the id `id` of the other side. Returns one outcome
 * per added id, in order; undefined if `id` does not exist, `changed` if its version does not meet `precondition`.
 * @param on the transaction to execute it in
 */
export type Add = (
  id: number,
  added: readonly number[],
  precondition?: Precondition,
  on?: Transaction,
) => Promise<Added[] | 'changed' | undefined>

export interface Memberships {
  /** Adds related records to a record of the limited side. */
  readonly add: Add
  /** Adds records of the limited side to a related record. */
  readonly addMembers: Add
  /**
   * Removes one membership. `unknown`: `own` does not exist. `changed`: its version does not meet `precondition`.
   * `no member`: the membership does not exist.
   */
  remove(
    own: number,
    other: number,
    precondition?: Precondition,
  ): Promise<'removed' | 'changed' | 'unknown' | 'no member'>
}

/** The memberships of a record of the limited side. */
interface Existing {
  count: number
  /** Those of its related records that the request names. */
  readonly others: Set<number>
}

export function createMemberships(
  database: Database,
  counts: Counts,
  resource: Resource,
  relation: LimitedRelation,
  limit: number,
): Memberships {
  const { table, ownKey, otherKey, to } = relation
  const ownLocks = createRowLocks(resource)
  const otherLocks = createRowLocks(to)

  const existingSql = `SELECT ${ownKey} AS own, NULL AS other, COUNT(*) AS count
      FROM ${table} WHERE ${ownKey} IN (?) GROUP BY ${ownKey}
    UNION ALL SELECT ${ownKey}, ${otherKey}, 0 FROM ${table} WHERE ${ownKey} IN (?) AND ${otherKey} IN (?)`
  // The ids make the new versions differ from each other. A scan of a small table would lock all of its rows.
  const renewSql = `UPDATE \`${resource.plural}\` FORCE INDEX (PRIMARY) SET version = ? ^ id WHERE id IN (?)`

  /** Renews the versions of rows that the transaction has locked. */
  async function renewVersions(trx: Transaction, rows: readonly Row[]): Promise<void> {
    const [first] = rows
    if (first === undefined) return
    const token = newVersion()
    const ids = rows.map(({ id }) => id)
    const { affectedRows } = await trx.execute(renewSql, [token, ids])
    assertRowCount(resource.plural, affectedRows, rows.length)
    const after = Number(BigInt(token) ^ BigInt(first.id))
    trx.noteChange({ table: resource.plural, id: first.id, before: first.version, after })
  }

  /** Returns the memberships of each of the records `owns`. */
  async function readExisting(
    trx: Transaction,
    owns: readonly number[],
    others: readonly number[],
  ): Promise<ReadonlyMap<number, Existing>> {
    const existing = new Map(owns.map((id): [number, Existing] => [id, { count: 0, others: new Set() }]))
    if (owns.length === 0 || others.length === 0) return existing
    for (const { own, other, count } of await trx.query(existingSql, [owns, owns, others])) {
      const memberships = existing.get(Number(own))
      if (memberships === undefined) continue
      memberships.count += Number(count)
      if (other !== null) memberships.others.add(Number(other))
    }
    return existing
  }

  /** Inserts pairs that do not exist. @param owns the locked rows of their limited side */
  async function insertPairs(
    trx: Transaction,
    pairs: readonly { readonly own: number; readonly other: number }[],
    owns: ReadonlyMap<number, Row>,
  ): Promise<void> {
    if (pairs.length === 0) return
    await trx.run(knex =>
      knex(table).insert(pairs.map(({ own, other }) => ({ [ownKey]: own, [otherKey]: other }))),
    )
    const changes = pairs.map(({ own, other }) => memberChange(to, other, own, 1))
    await counts.record(trx, changes)
    const changedIds = new Set(pairs.map(({ own }) => own))
    const changedRows = [...owns.values()].filter(({ id }) => changedIds.has(id))
    await renewVersions(trx, changedRows)
  }

  /** @param side the side of the record that the others are added to */
  function createAdd(side: 'own' | 'other'): Add {
    const isOwn = side === 'own'

    async function add(
      trx: Transaction,
      id: number,
      added: readonly number[],
      precondition?: Precondition,
    ): Promise<Added[] | 'changed' | undefined> {
      // Every membership change locks the rows of the limited side first, to protect their limits and versions.
      const owns = await ownLocks.lockAll(trx, isOwn ? [id] : added)
      const others = await otherLocks.lockAll(trx, isOwn ? added : [id], 'share')
      const record = (isOwn ? owns : others).get(id)
      if (record === undefined) return undefined
      if (precondition?.(record.version) === false) return 'changed'
      const existing = await readExisting(trx, [...owns.keys()], [...others.keys()])
      const pairs: { own: number; other: number }[] = []
      const outcomes = added.map((addedId): Added => {
        const row = (isOwn ? others : owns).get(addedId)
        const [own, other] = isOwn ? [id, addedId] : [addedId, id]
        const memberships = existing.get(own)
        if (row === undefined || memberships === undefined) return 'unknown'
        if (memberships.others.has(other)) return { row, created: false }
        if (memberships.count >= limit) return 'full'
        memberships.count++
        memberships.others.add(other)
        pairs.push({ own, other })
        return { row, created: true }
      })
      await insertPairs(trx, pairs, owns)
      return outcomes
    }

    return (id, added, precondition, on) => {
      if (on !== undefined) return add(on, id, added, precondition)
      const [own, ...more] = isOwn ? [id] : added
      const key = own === undefined || more.length > 0 ? undefined : rowKey(resource.plural, own)
      return database.transaction(trx => add(trx, id, added, precondition), key)
    }
  }

  return {
    add: createAdd('own'),
    addMembers: createAdd('other'),
    remove: (own, other, precondition) =>
      database.transaction(
        async trx => {
          const record = (await ownLocks.lockAll(trx, [own])).get(own)
          if (record === undefined) return 'unknown'
          if (precondition?.(record.version) === false) return 'changed'
          const pair = { [ownKey]: own, [otherKey]: other }
          const existing = await trx.run(knex => knex(table).where(pair).forUpdate().pluck(otherKey))
          if (existing.length === 0) return 'no member'
          assertRowCount(table, await trx.run(knex => knex(table).where(pair).delete()), 1)
          await counts.record(trx, [memberChange(to, other, own, -1)])
          await renewVersions(trx, [record])
          return 'removed'
        },
        rowKey(resource.plural, own),
      ),
  }
}
