// Exact counts that are cheap to read and to write. A write inserts the change of a count into
// `count_changes` in its own transaction, so concurrent writes never wait for a shared counter row.
// Compaction (`compaction.ts`) occasionally adds these rows to `counts`. A count is the sum of both tables in one snapshot.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import type { Transaction } from '../transaction.ts'

/**
 * Number of ids per slot. A million records have about 500 slots to sum, and a page at any offset is found by
 * skipping at most 2,047 records.
 */
export const SLOT_IDS = 2048

/**
 * Number of ids of members per block. A page of the members of a record is found by skipping at most 16,383 members.
 * Smaller blocks would need more rows: a record has one row for each block with members.
 */
export const BLOCK_IDS = 16_384

/**
 * The change of a count. Records are counted by slots of ids. Members are counted by the id of the record that has them,
 * and by blocks of their own ids.
 */
export interface CountChange {
  readonly kind: string
  readonly slot: number
  readonly block: number
  readonly amount: number
}

const slotOf = (id: number) => Math.floor(id / SLOT_IDS)

/** The change for an inserted (1) or deleted (−1) record of `resource`. */
export const recordChange = ({ plural }: Resource, id: number, amount: 1 | -1): CountChange => ({
  kind: plural,
  slot: slotOf(id),
  block: 0,
  amount,
})

/** The kind of the member counts of the records of `resource`. */
export const membersKind = ({ plural }: Resource): string => `${plural}.members`

/** The change for a member added to (1) or removed from (−1) the record of `resource` with this `id`. */
export const memberChange = (
  resource: Resource,
  id: number,
  memberId: number,
  amount: 1 | -1,
): CountChange => ({
  kind: membersKind(resource),
  slot: id,
  block: Math.floor(memberId / BLOCK_IDS),
  amount,
})

/** Returns one change per slot and block, in a fixed order so that concurrent transactions do not deadlock. */
export function merge(changes: readonly CountChange[]): CountChange[] {
  const merged = new Map<string, CountChange & { amount: number }>()
  let last: (CountChange & { amount: number }) | undefined
  for (const change of changes) {
    const { kind, slot, block, amount } = change
    // Most records of a batch are in the slot of the one before: a key for each of them would cost more.
    if (last?.kind !== kind || last.slot !== slot || last.block !== block) {
      const key = `${kind} ${slot} ${block}`
      last = merged.get(key) ?? { kind, slot, block, amount: 0 }
      merged.set(key, last)
    }
    last.amount += amount
  }
  return [...merged.entries()]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([, change]) => (change.amount === 0 ? [] : [change]))
}

/** Returns the rows of an INSERT. */
export const asRows = (changes: readonly CountChange[]): unknown[][] =>
  changes.map(({ kind, slot, block, amount }) => [kind, slot, block, amount])

/** Inserts the count changes of a transaction. @returns the number of rows */
export async function insertCountChanges(trx: Transaction, changes: readonly CountChange[]): Promise<number> {
  const merged = merge(changes)
  if (merged.length > 0)
    await trx.execute('INSERT INTO count_changes (kind, slot, block, amount) VALUES ?', [asRows(merged)])
  return merged.length
}

/** Returns an SQL expression for the count of a kind. @param within restricts the slots */
export function countSql(knex: Knex, kind: string, within?: (slots: Knex.QueryBuilder) => void): Knex.Raw {
  const sumOf = (table: string) => {
    const slots = knex(table).where({ kind }).select(knex.raw('COALESCE(SUM(amount), 0)'))
    within?.(slots)
    return slots
  }
  return knex.raw('? + ?', [sumOf('counts'), sumOf('count_changes')])
}

/**
 * Returns an SQL expression for the number of records with an id above or below `id`. Only the records of the
 * slot of `id` are counted one by one.
 */
export function countBeyondSql(knex: Knex, { plural }: Resource, side: '>' | '<', id: number): Knex.Raw {
  const slot = slotOf(id)
  const inSlot = knex(plural)
    .whereBetween('id', [slot * SLOT_IDS, (slot + 1) * SLOT_IDS - 1])
    .where('id', side, id)
    .count('*')
  return knex.raw('? + ?', [countSql(knex, plural, slots => slots.where('slot', side, slot)), inSlot])
}
