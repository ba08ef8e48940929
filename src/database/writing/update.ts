// Updates records. Concurrent updates share a transaction and therefore one disk flush, but each has its own
// outcome. A row that another session has locked delays only the updates of this row.
import type { Resource } from '../../model/resource.ts'
import type { Row, Values } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import type { Database } from '../database.ts'
import { assertRowCount, isDuplicate } from '../driver-errors.ts'
import { LockedError, lockedAs, rowKey } from '../lock-queue.ts'
import type { Transaction } from '../transaction.ts'
import { newVersion, type Precondition, renewGeneration } from '../version.ts'
import { createRowLocks, nameKey } from './row-locks.ts'

// While one transaction flushes to disk, the other one can continue.
const limits = { concurrency: 2, maxSize: 200, eager: true }

/** Updates the fields in `values` if the current version meets `precondition`. */
export type Update = (id: number, values: Values, precondition?: Precondition) => Promise<UpdateOutcome>

/**
 * The new row. `exists`: another record has the same unique values. `changed`: the version does not meet the
 * precondition. Undefined: the id does not exist.
 */
type UpdateOutcome = Row | 'exists' | 'changed' | undefined

interface Change {
  readonly id: number
  readonly values: Values
  readonly precondition: Precondition | undefined
}

/** By change, without those of records that do not exist. LockedError: another session holds a lock. */
type Outcomes = Map<Change, UpdateOutcome | LockedError>

/** Splits changes into rounds with at most one change per record. The changes of a record keep their order. */
function roundsOf(changes: readonly Change[]): Change[][] {
  const rounds: Change[][] = []
  const seen = new Map<number, number>()
  for (const change of changes) {
    const round = seen.get(change.id) ?? 0
    seen.set(change.id, round + 1)
    rounds[round] = [...(rounds[round] ?? []), change]
  }
  return rounds
}

export function createUpdate(database: Database, resource: Resource): Update {
  const { plural: table } = resource
  const fields = Object.keys(resource.fields)
  const { lockFree } = createRowLocks(resource)
  const columns = ['id', ...fields, 'version']
  const assignments = columns.slice(1).map(column => `\`${table}\`.${column} = changed.${column}`)
  /** Returns SQL that updates `rowCount` rows in one round trip. */
  const updateSql = (rowCount: number) => {
    const first = `SELECT ${columns.map(column => `? AS ${column}`).join(', ')}`
    const others = ` UNION ALL SELECT ${columns.map(() => '?').join(', ')}`.repeat(rowCount - 1)
    // This join order reads rows by primary key. A scan of a small table would wait for all of its rows.
    return `UPDATE (${first}${others}) AS changed STRAIGHT_JOIN \`${table}\` ON changed.id = \`${table}\`.id
      SET ${assignments.join(', ')}`
  }

  async function applyChanges(trx: Transaction, changes: readonly Change[]) {
    const ids = changes.map(({ id }) => id)
    const { rows, skippedIds } = await lockFree(trx, ids)
    const before = new Map(rows)
    const outcomes: Outcomes = new Map()
    for (const change of changes)
      if (skippedIds.has(change.id)) outcomes.set(change, new LockedError(rowKey(table, change.id)))
    for (const round of roundsOf(changes)) await applyRound(trx, rows, round, outcomes)
    const updated = [...rows.values()].find(row => row !== before.get(row.id))
    // The cache is invalidated only if at least one row was updated.
    if (updated !== undefined) {
      const { id, version } = updated
      trx.noteChange({ table, id, before: before.get(id)?.version, after: version })
      await renewGeneration(trx, resource)
    }
    return outcomes
  }

  /** Applies changes of different records in one statement; after a unique conflict, one by one. */
  async function applyRound(
    trx: Transaction,
    rows: Map<number, Row>,
    round: readonly Change[],
    outcomes: Outcomes,
  ): Promise<void> {
    const updates = round.flatMap(change => {
      const row = rows.get(change.id)
      if (row === undefined) return []
      if (change.precondition?.(row.version) === false) {
        outcomes.set(change, 'changed')
        return []
      }
      const renamed = { ...row, ...change.values, version: newVersion() }
      if (!trx.mayWait && database.lockedKeys.size > 0 && isNameLocked(row, renamed)) {
        outcomes.set(change, new LockedError(nameKey(resource, renamed)))
        return []
      }
      return [{ change, row: renamed }]
    })
    const changedRows = updates.map(({ row }) => row)
    const storedAll = await storeAll(trx, changedRows)
    for (const { change, row } of updates) {
      const stored = storedAll || (updates.length > 1 && (await storeAll(trx, [row])))
      if (stored) rows.set(row.id, row)
      outcomes.set(change, stored ? row : 'exists')
    }
  }

  function isNameLocked(row: Row, renamed: Row): boolean {
    const key = nameKey(resource, renamed)
    return key !== nameKey(resource, row) && database.lockedKeys.has(key)
  }

  /** Stores rows with one statement. @returns false after a unique conflict; no row is stored then */
  async function storeAll(trx: Transaction, rows: readonly Row[]): Promise<boolean> {
    const [first] = rows
    if (first === undefined) return true
    const values = rows.flatMap(row => [row.id, ...fields.map(field => row[field] ?? null), row.version])
    try {
      // A transaction of the lock queue updates only one row, so it waits for this name.
      const updating = trx.execute(updateSql(rows.length), values)
      const { affectedRows } = await lockedAs(nameKey(resource, first), updating)
      assertRowCount(table, affectedRows, rows.length)
      return true
    } catch (error) {
      // Only this statement is rolled back, not the transaction.
      if (isDuplicate(error)) return false
      throw error
    }
  }

  const updateBatched = createBatcher(
    async (changes: readonly Change[]) => {
      const outcomes = await database.tryTransaction(trx => applyChanges(trx, changes), changes.length)
      return changes.map(change =>
        outcomes === 'locked' ? new LockedError(rowKey(table, change.id)) : outcomes.get(change),
      )
    },
    { ...limits, keyOf: ({ id }: Change) => id },
  )

  /** Updates one record in the lock queue. */
  const updateInQueue = (key: string, change: Change): Promise<UpdateOutcome> =>
    database.transactionInQueue(key, async trx => {
      const outcome = (await applyChanges(trx, [change])).get(change)
      if (outcome instanceof LockedError) throw outcome
      return outcome
    })

  return async (id, values, precondition) => {
    const change = { id, values, precondition }
    const key = rowKey(table, id)
    if (database.lockedKeys.has(key)) return updateInQueue(key, change)
    const outcome = await updateBatched(change)
    return outcome instanceof LockedError ? updateInQueue(outcome.key, change) : outcome
  }
}
