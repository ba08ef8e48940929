// Updates records. Concurrent updates share a transaction and therefore one disk flush, but each has its own
// outcome. A row that another session has locked delays only the updates of this row.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import type { Row, Values } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import type { Database } from '../database.ts'
import { contentionError, isDuplicate } from '../driver-errors.ts'
import { newVersion, type Precondition, renewGeneration } from '../version.ts'
import { createRowLocks } from './row-locks.ts'

// While one transaction waits for a locked row, the other one can continue.
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

/**
 * Splits changes into rounds with at most one change per record. The changes of a record keep their order.
 */
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
  const lock = createRowLocks(database, resource)
  /** The ids of rows that another session had locked at the last attempt. */
  const lockedIds = new Set<number>()
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

  /**
   * @returns the outcomes by change, and the ids of rows that another session has locked, without outcomes
   */
  async function applyChanges(trx: Knex.Transaction, changes: readonly Change[]) {
    const { rows, skippedIds } = await lock(trx, [...new Set(changes.map(({ id }) => id))])
    const outcomes = new Map<Change, UpdateOutcome>()
    for (const round of roundsOf(changes)) await applyRound(trx, rows, round, outcomes)
    // The cache is invalidated only if at least one row was updated.
    if ([...outcomes.values()].some(outcome => typeof outcome === 'object'))
      await renewGeneration(trx, resource)
    return { outcomes, skippedIds }
  }

  /** Applies changes of different records in one statement; after a unique conflict, one by one. */
  async function applyRound(
    trx: Knex.Transaction,
    rows: Map<number, Row>,
    round: readonly Change[],
    outcomes: Map<Change, UpdateOutcome>,
  ): Promise<void> {
    const updates = round.flatMap(change => {
      const row = rows.get(change.id)
      if (row === undefined) return []
      if (change.precondition?.(row.version) === false) {
        outcomes.set(change, 'changed')
        return []
      }
      return [{ change, row: { ...row, ...change.values, version: newVersion() } }]
    })
    const storedAll = await storeAll(
      trx,
      updates.map(({ row }) => row),
    )
    for (const { change, row } of updates) {
      const stored = storedAll || (updates.length > 1 && (await storeAll(trx, [row])))
      if (stored) rows.set(row.id, row)
      outcomes.set(change, stored ? row : 'exists')
    }
  }

  /** Stores rows with one statement. @returns false after a unique conflict; no row is stored then */
  async function storeAll(trx: Knex.Transaction, rows: readonly Row[]): Promise<boolean> {
    if (rows.length === 0) return true
    try {
      const sql = updateSql(rows.length)
      await database.execute(
        sql,
        rows.flatMap(row => [row.id, ...fields.map(field => row[field] ?? null), row.version]),
        trx,
      )
      return true
    } catch (error) {
      // Only this statement is rolled back, not the transaction.
      if (isDuplicate(error)) return false
      throw error
    }
  }

  async function attempt(changes: readonly Change[]): Promise<(UpdateOutcome | 'locked')[]> {
    const { outcomes, skippedIds } = await database.transaction(trx => applyChanges(trx, changes))
    for (const { id } of changes) {
      if (skippedIds.has(id)) lockedIds.add(id)
      else lockedIds.delete(id)
    }
    return changes.map(change => (skippedIds.has(change.id) ? 'locked' : outcomes.get(change)))
  }

  const updateBatched = createBatcher(attempt, limits)
  // Rows that were locked have their own batches, so that updates of other rows do not wait for them again.
  const updateLockedBatched = createBatcher(attempt, { ...limits, concurrency: 1 })

  async function updateLocked(change: Change): Promise<UpdateOutcome> {
    const outcome = await updateLockedBatched(change)
    if (outcome === 'locked')
      throw contentionError(`row ${change.id} of ${table} is locked by another session`)
    return outcome
  }

  return async (id, values, precondition) => {
    const change = { id, values, precondition }
    const outcome = lockedIds.has(id) ? 'locked' : await updateBatched(change)
    return outcome === 'locked' ? database.retryOnContention(() => updateLocked(change)) : outcome
  }
}
