// Updates records. Changes that arrive together share a transaction, and so a flush to the disk; each has its own outcome.
// None waits for long for a row that only another one is about.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import type { Row, Values } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import type { Database } from '../database.ts'
import { contentionError, isDuplicate } from '../driver-errors.ts'
import { newVersion, type Precondition, renewGeneration } from '../version.ts'
import { createRowLocks } from './row-locks.ts'

// While one transaction waits for somebody's row, another one can go on.
const limits = { concurrency: 2, maxSize: 200, eager: true }

/** Changes some fields, or all, where `precondition` holds for the version that it replaces. */
export type Update = (id: number, values: Values, precondition?: Precondition) => Promise<UpdateOutcome>

/** `exists`: the unique index forbids it. `changed`: the precondition does not hold. Undefined: there is no such id. */
type UpdateOutcome = Row | 'exists' | 'changed' | undefined

interface Change {
  readonly id: number
  readonly values: Values
  readonly precondition: Precondition | undefined
}

/** Each record at most once in a round, its changes in their order. */
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
  /** The ids of rows that were somebody else's when they were last asked for. */
  const lockedElsewhere = new Set<number>()
  const written = ['id', ...fields, 'version']
  const assignments = written.slice(1).map(column => `\`${table}\`.${column} = changed.${column}`)
  /** Gives `rows` rows their new values: a statement for each would be a round trip for each. */
  const updateSql = (rows: number) => {
    const first = `SELECT ${written.map(column => `? AS ${column}`).join(', ')}`
    const others = ` UNION ALL SELECT ${written.map(() => '?').join(', ')}`.repeat(rows - 1)
    // In this order, and so row by row: who reads a whole small table waits for all of its rows.
    return `UPDATE (${first}${others}) AS changed STRAIGHT_JOIN \`${table}\` ON changed.id = \`${table}\`.id
      SET ${assignments.join(', ')}`
  }

  /** @returns the outcomes, and the ids of the rows that could not be had, whose changes have none */
  async function applyChanges(trx: Knex.Transaction, changes: readonly Change[]) {
    const { rows, lockedElsewhere } = await lock(trx, [...new Set(changes.map(({ id }) => id))])
    const outcomes = new Map<Change, UpdateOutcome>()
    for (const round of roundsOf(changes)) await applyRound(trx, rows, round, outcomes)
    // What changed nothing takes nothing from the cache.
    if ([...outcomes.values()].some(outcome => typeof outcome === 'object'))
      await renewGeneration(trx, resource)
    return { outcomes, lockedElsewhere }
  }

  /** Changes of different records, all at once if the unique index lets all of them in, else one after the other. */
  async function applyRound(
    trx: Knex.Transaction,
    rows: Map<number, Row>,
    round: readonly Change[],
    outcomes: Map<Change, UpdateOutcome>,
  ): Promise<void> {
    const changed = round.flatMap(change => {
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
      changed.map(({ row }) => row),
    )
    for (const { change, row } of changed) {
      const stored = storedAll || (changed.length > 1 && (await storeAll(trx, [row])))
      if (stored) rows.set(row.id, row)
      outcomes.set(change, stored ? row : 'exists')
    }
  }

  /** Stores rows with one statement. @returns false if the unique index is against one of them: then nothing is stored */
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
      // Only this statement is undone.
      if (isDuplicate(error)) return false
      throw error
    }
  }

  async function attempt(changes: readonly Change[]): Promise<(UpdateOutcome | 'locked')[]> {
    const { outcomes, lockedElsewhere: others } = await database.transaction(trx =>
      applyChanges(trx, changes),
    )
    for (const { id } of changes) {
      if (others.has(id)) lockedElsewhere.add(id)
      else lockedElsewhere.delete(id)
    }
    return changes.map(change => (others.has(change.id) ? 'locked' : outcomes.get(change)))
  }

  const together = createBatcher(attempt, limits)
  const apart = createBatcher(attempt, { ...limits, concurrency: 1 })

  async function whenHeld(change: Change): Promise<UpdateOutcome> {
    const outcome = await apart(change)
    if (outcome === 'locked') throw contentionError(`${table} ${change.id} is locked by another session`)
    return outcome
  }

  return async (id, values, precondition) => {
    const change = { id, values, precondition }
    const outcome = lockedElsewhere.has(id) ? 'locked' : await together(change)
    return outcome === 'locked' ? database.retryOnContention(() => whenHeld(change)) : outcome
  }
}
