// Updates records.
import type { Resource } from '../../model/resource.ts'
import { type Row, readRow, type Values } from '../../model/row.ts'
import type { Origin } from '../changes.ts'
import type { Database } from '../database.ts'
import { assertRowCount, isDuplicate } from '../driver-errors.ts'
import type { Outcome } from '../lane/outcome.ts'
import type { Item, Writer } from '../lane/writer.ts'
import { listedRows, partsOf } from '../listed-rows.ts'
import type { Transaction } from '../transaction.ts'
import { newVersion, type Precondition } from '../version.ts'
import { createNames, noWait } from './names.ts'
import { createAwaitLock, createRowLocks, rowKey } from './row-locks.ts'

/** Sets the fields in `values` if the current version meets `precondition`. A record that already has them keeps its version. */
interface Patch {
  readonly id: number
  readonly values: Values
  readonly precondition?: Precondition | undefined
}

/** Patches that are applied in their order. Several can be of the same record; each outcome has the row after its own patch. */
interface Update extends Item {
  readonly patches: readonly Patch[]
}

/** A patch of one of the items of a transaction. */
interface Step {
  readonly patch: Patch
  readonly origin: Origin
}

interface Replacement extends Step {
  readonly before: Row
  readonly row: Row
}

/**
 * Divides the patches of items into rounds with at most one patch per record. The patches of a record, and those of an
 * item, keep their order.
 */
function roundsOf(items: readonly Update[]): Step[][] {
  const rounds: Step[][] = []
  const next = new Map<number, number>()
  // No patch of an item precedes one of an earlier item: they would be in different orders otherwise.
  let round = 0
  for (const item of items) {
    for (const patch of item.patches) {
      round = Math.max(round, next.get(patch.id) ?? 0)
      next.set(patch.id, round + 1)
      rounds[round] ??= []
      rounds[round]?.push({ patch, origin: item.origin })
    }
  }
  return rounds
}

export function createUpdate(database: Database, resource: Resource): Writer<Update> {
  const { plural: table, unique } = resource
  const fields = Object.keys(resource.fields)
  const { namesOf, keyOf, assertFree, heldItems } = createNames(database, resource, 'share')
  const lockRows = createRowLocks(resource, 'update')
  const idsOf = ({ patches }: Update) => patches.map(({ id }) => id)
  const readSql = `SELECT id, version, ${unique.join(', ')} FROM \`${table}\` WHERE id IN (?)`
  const columns = ['id', ...fields, 'version']
  const assignments = columns.slice(1).map(column => `\`${table}\`.${column} = changed.${column}`)
  /** Returns SQL that updates `rowCount` rows in one round trip. */
  const updateSql = (rowCount: number) =>
    `${noWait} UPDATE ${listedRows(columns, rowCount)} AS changed STRAIGHT_JOIN \`${table}\` ON changed.id = \`${table}\`.id
    SET ${assignments.join(', ')}`

  /** Stores rows with one statement. @returns false after a unique conflict; no row is stored then */
  async function storeAll(trx: Transaction, rows: readonly Row[]): Promise<boolean> {
    const values = rows.flatMap(row => [row.id, ...fields.map(field => row[field] ?? null), row.version])
    try {
      assertRowCount(table, await trx.execute(updateSql(rows.length), values), rows.length)
      return true
    } catch (error) {
      // Only this statement is rolled back, not the transaction.
      if (isDuplicate(error)) return false
      throw error
    }
  }

  /** Stores rows as if one by one, in their order. @returns those that conflict with no other record */
  async function storeEach(trx: Transaction, rows: readonly Row[]): Promise<readonly Row[]> {
    if (await storeAll(trx, rows)) return rows
    if (rows.length === 1) return []
    const middle = Math.ceil(rows.length / 2)
    const first = await storeEach(trx, rows.slice(0, middle))
    return [...first, ...(await storeEach(trx, rows.slice(middle)))]
  }

  const hasValues = (row: Row, values: Values) =>
    Object.entries(values).every(([field, value]) => row[field] === value)
  const isRenamed = (before: Row, after: Row) => unique.some(field => before[field] !== after[field])

  /**
   * Stores rows as if one by one. The server chooses the order in which a statement updates its rows: MySQL, the order of their
   * ids if its temporary table is on disk. The order matters only if a record gets a name that another one of them has now:
   * each has a statement of its own then.
   */
  async function storeInOrder(trx: Transaction, updates: readonly Replacement[], renamed: readonly Row[]) {
    const before = new Set(namesOf(updates.map(update => update.before)).map(keyOf))
    const depend = namesOf(renamed).some(name => before.has(keyOf(name)))
    const rows = updates.map(({ row }) => row)
    const stored: Row[] = []
    for (const part of depend ? rows.map(row => [row]) : partsOf(rows))
      stored.push(...(await storeEach(trx, part)))
    return stored
  }

  /** Applies patches of different records. */
  async function applyRound(
    trx: Transaction,
    rows: Map<number, Row>,
    round: readonly Step[],
    outcomes: Map<Patch, Outcome>,
  ): Promise<void> {
    const updates: Replacement[] = []
    const renamed: Row[] = []
    for (const { patch, origin } of round) {
      const before = rows.get(patch.id)
      if (before === undefined) outcomes.set(patch, 'not_found')
      else if (patch.precondition?.(before.version) === false) outcomes.set(patch, 'precondition_failed')
      else if (hasValues(before, patch.values)) outcomes.set(patch, { row: before, changed: false })
      else {
        const row = { ...before, ...patch.values, version: newVersion() }
        updates.push({ patch, origin, before, row })
        if (isRenamed(before, row)) renamed.push(row)
      }
    }
    await assertFree(trx, renamed)
    const stored = new Set(await storeInOrder(trx, updates, renamed))
    for (const { patch, origin, before, row } of updates) {
      outcomes.set(patch, stored.has(row) ? { row, changed: true } : 'exists')
      if (!stored.has(row)) continue
      rows.set(row.id, row)
      const { id } = row
      trx.record({ type: 'updated', resource, id, before: before.version, after: row.version, origin })
    }
  }

  return database.createWriter<Update>({
    keysOf: ({ patches }) => [
      ...patches.map(({ id }) => rowKey(resource, id)),
      ...namesOf(patches.map(({ values }) => values)).map(keyOf),
    ],

    async apply(trx, items) {
      const ids = items.flatMap(idsOf)
      const { rows, skippedIds } = await lockRows(trx, ids, items.length === 1)
      const isFree = ({ patches }: Update) => patches.every(({ id }) => !skippedIds.has(id))
      const outcomes = new Map<Patch, Outcome>()
      for (const round of roundsOf(items.filter(isFree))) await applyRound(trx, rows, round, outcomes)
      return items.map(item =>
        isFree(item) ? item.patches.map(patch => outcomes.get(patch) ?? 'not_found') : 'locked',
      )
    },

    awaitLock: createAwaitLock(resource, idsOf),

    async held(items) {
      const ids = items.flatMap(idsOf)
      const stored = (await database.query(readSql, [ids])).map(readRow)
      const rows = new Map(stored.map(row => [row.id, row]))
      return heldItems(items, ({ patches }) =>
        patches.flatMap(({ id, values }) => {
          const before = rows.get(id)
          if (before === undefined) return []
          const after = { ...before, ...values }
          return isRenamed(before, after) ? namesOf([after]) : []
        }),
      )
    },
  })
}
