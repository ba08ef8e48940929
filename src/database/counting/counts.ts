// Exact counts that cost neither a reader nor a writer much. A write that adds or removes records leaves a line that says
// so in `count_changes`, in its own transaction: no two writes ever wait for the same row. Now and then the lines are
// added to `counts`. What there is is the sum of both tables, of whatever moment a statement sees.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import type { Database } from '../database.ts'

/**
 * How many ids share a slot: a million records have some 500 slots to be summed, and a page anywhere among them is found
 * by skipping at most 2,047 records.
 */
export const SLOT_IDS = 2048

/** For one line in so many, all are added up: so few of them stay that reading them costs nothing. */
const COMPACT_ONE_IN = 64
const COMPACT_AT_MOST = 2000

/** Some more or fewer of a kind: of a resource by slots of its ids, of a record's members by its id. */
export interface CountChange {
  readonly kind: string
  readonly slot: number
  readonly amount: number
}

const slotOf = (id: number) => Math.floor(id / SLOT_IDS)

/** `resource`'s record with this `id` has come (1) or gone (−1). */
export const recordChange = ({ plural }: Resource, id: number, amount: 1 | -1): CountChange => ({
  kind: plural,
  slot: slotOf(id),
  amount,
})

/** The kind that counts, for each record of `resource`, how many are related to it. */
export const membersKind = ({ plural }: Resource): string => `${plural}.members`

/** The record of `resource` with this `id` has one member more (1) or less (−1). */
export const memberChange = (resource: Resource, id: number, amount: 1 | -1): CountChange => ({
  kind: membersKind(resource),
  slot: id,
  amount,
})

export interface Counts {
  /** Notes the changes that the transaction makes. */
  record(trx: Knex.Transaction, changes: readonly CountChange[]): Promise<void>
  /** Forgets the members of a record that the transaction removes. */
  forgetMembers(trx: Knex.Transaction, resource: Resource, id: number): Promise<void>
  /** Adds up what is noted; several processes may do so at once. */
  compact(): Promise<void>
}

/** One change for each slot, in one order for everybody. */
function merge(changes: readonly CountChange[]): CountChange[] {
  const merged = new Map<string, CountChange>()
  for (const { kind, slot, amount } of changes) {
    const key = `${kind} ${slot}`
    merged.set(key, { kind, slot, amount: amount + (merged.get(key)?.amount ?? 0) })
  }
  return [...merged.entries()]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([, change]) => (change.amount === 0 ? [] : [change]))
}

const noteSql = 'INSERT INTO count_changes (kind, slot, amount) VALUES ?'
const addSql = `INSERT INTO counts (kind, slot, amount) VALUES ?
  ON DUPLICATE KEY UPDATE amount = amount + VALUES(amount)`
// By the lines that it is about: who looks for them in the whole table waits for those that others are writing.
const deleteSql = `DELETE count_changes
  FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS added
  STRAIGHT_JOIN count_changes ON count_changes.id = added.id`
const asRows = (changes: readonly CountChange[]) =>
  changes.map(({ kind, slot, amount }) => [kind, slot, amount])

export function createCounts(database: Database): Counts {
  let compacting = false

  /** @returns how many lines it found */
  async function addUp(trx: Knex.Transaction): Promise<number> {
    // Lines that another process is adding up are left to it.
    const lines: (CountChange & { id: number })[] = await trx('count_changes')
      .orderBy('id')
      .limit(COMPACT_AT_MOST)
      .forUpdate()
      .skipLocked()
      .select('id', 'kind', 'slot', 'amount')
    if (lines.length === 0) return 0
    const changes = merge(lines)
    if (changes.length > 0) await database.execute(addSql, [asRows(changes)], trx)
    await database.execute(deleteSql, [JSON.stringify(lines.map(({ id }) => id))], trx)
    return lines.length
  }

  async function compact(): Promise<void> {
    if (compacting) return
    compacting = true
    try {
      while ((await database.transaction(addUp)) === COMPACT_AT_MOST);
    } finally {
      compacting = false
    }
  }

  return {
    compact,
    async forgetMembers(trx, resource, id) {
      // In this order: what is being added up right now is there when it has been waited for.
      for (const table of ['count_changes', 'counts'])
        await trx(table)
          .where({ kind: membersKind(resource), slot: id })
          .delete()
    },
    async record(trx, changes) {
      const merged = merge(changes)
      if (merged.length === 0) return
      await database.execute(noteSql, [asRows(merged)], trx)
      // What fails here is done by the next one; a loss of the database is noted where it is watched.
      if (Math.random() < merged.length / COMPACT_ONE_IN) trx.executionPromise.then(compact).catch(() => {})
    },
  }
}

/** SQL, an expression: how many there are of a kind, in the slots that `within` leaves of all. */
export function countSql(on: Knex, kind: string, within?: (slots: Knex.QueryBuilder) => void): Knex.Raw {
  const sumOf = (table: string) => {
    const slots = on(table).where({ kind }).select(on.raw('COALESCE(SUM(amount), 0)'))
    within?.(slots)
    return slots
  }
  return on.raw('? + ?', [sumOf('counts'), sumOf('count_changes')])
}

/** SQL, an expression: how many records have an id on this side of `id`: those in its own slot are looked at. */
export function countBeyondSql(on: Knex, { plural }: Resource, side: '>' | '<', id: number): Knex.Raw {
  const slot = slotOf(id)
  const inSlot = on(plural)
    .whereBetween('id', [slot * SLOT_IDS, (slot + 1) * SLOT_IDS - 1])
    .where('id', side, id)
    .count('*')
  return on.raw('? + ?', [countSql(on, plural, slots => slots.where('slot', side, slot)), inSlot])
}

/**
 * SQL: the slot in which the record number `index` of all is, from 0, and how many are before it as `skipped`; no slot
 * past the end.
 */
export function seekSql(on: Knex, { plural: kind }: Resource, index: number): Knex.QueryBuilder {
  const noted = on('counts')
    .where({ kind })
    .select('slot', 'amount')
    .unionAll(on('count_changes').where({ kind }).select('slot', 'amount'))
  // The lines of one slot are peers in this order, so each has the sum up to the last of them.
  const running = on(noted.as('noted')).select('slot', on.raw('SUM(amount) OVER (ORDER BY slot) AS reached'))
  return on(running.as('running')).select(
    on.raw('MIN(CASE WHEN reached > ? THEN slot END) AS slot', [index]),
    on.raw('COALESCE(MAX(CASE WHEN reached <= ? THEN reached END), 0) AS skipped', [index]),
  )
}
