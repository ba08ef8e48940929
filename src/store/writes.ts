// Creating, changing and removing records. The unique index decides what exists already, never a look before the write.
// Writes that arrive together share a transaction, and so a flush to the disk; each has its own outcome.
import type { Knex } from 'knex'
import { type Resource, type Row, readRow, type Values } from '../resources/definition.ts'
import type { Database } from './database.ts'
import { isDuplicate } from './failures.ts'
import { createGatherer } from './gather.ts'
import { newVersion } from './version.ts'

// While one transaction is flushed another one gathers; several at once would wait for each other's rows.
const limits = { lanes: 2, most: 200 }

export interface Writes {
  /** Undefined where the unique index does not let it in. */
  create(values: Values): Promise<Row | undefined>
  /** All in one transaction: every entry that the unique index lets in, the first of equals; undefined for the others. */
  createAll(entries: readonly Values[]): Promise<(Row | undefined)[]>
  /** Changes some fields, or all. `exists` where the unique index forbids it, undefined where there is no such id. */
  update(id: number, values: Values): Promise<Row | 'exists' | undefined>
  /** @returns whether there was such an id */
  remove(id: number): Promise<boolean>
}

interface NewRow {
  readonly values: Values
  readonly version: number
}

interface Change {
  readonly id: number
  readonly values: Values
}

type Outcome = Row | 'exists' | undefined

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

export function createWrites(database: Database, resource: Resource): Writes {
  const { plural: table, unique } = resource
  const fields = Object.keys(resource.fields)

  /** Tells every cached include that holds a resource of this kind that it is out of date. */
  async function renewGeneration(trx: Knex.Transaction): Promise<void> {
    const { generation } = resource
    if (generation !== undefined) await trx(generation).where({ id: 1 }).update({ token: newVersion() })
  }

  const columns = [...fields, 'version'].join(', ')
  const insertSql = `INSERT INTO \`${table}\` (${columns}) VALUES ?
    ON DUPLICATE KEY UPDATE version = \`${table}\`.version`
  const readFromSql = `SELECT id, version FROM \`${table}\` WHERE id >= ? ORDER BY id LIMIT ?`
  const readBackSql = `SELECT id, version FROM \`${table}\` WHERE (${unique.join(', ')}) IN (?)`

  /** The ids of those that were let in, by version: our own rows are those with our versions. */
  async function insert(
    trx: Knex.Transaction,
    rows: readonly NewRow[],
  ): Promise<ReadonlyMap<number, number>> {
    // Whoever is there already stays as it is.
    const values = rows.map(row => [...fields.map(field => row.values[field] ?? null), row.version])
    const { insertId } = await database.execute(insertSql, [values], trx)
    const ids = new Map<number, number>()
    const found = (stored: readonly Record<string, unknown>[]) => {
      for (const { id, version } of stored.map(readRow)) ids.set(version, id)
    }
    // Nearly always the ids of one INSERT follow each other, but nothing promises it.
    found(await database.query(readFromSql, [insertId, rows.length], trx))
    const missing = rows.filter(({ version }) => !ids.has(version))
    if (missing.length > 0) {
      const names = missing.map(({ values }) => unique.map(field => values[field] ?? null))
      found(await database.query(readBackSql, [names], trx))
    }
    return ids
  }

  async function createAll(entries: readonly Values[]): Promise<(Row | undefined)[]> {
    if (entries.length === 0) return []
    const rows = entries.map((values): NewRow => ({ values, version: newVersion() }))
    const ids = await database.transaction(trx => insert(trx, rows))
    return rows.map(({ values, version }) => {
      const id = ids.get(version)
      return id === undefined ? undefined : readRow({ ...values, id, version })
    })
  }

  const lockSql = `SELECT id, version, ${fields.join(', ')} FROM \`${table}\` WHERE id IN (?) ORDER BY id FOR UPDATE`
  const written = ['id', ...fields, 'version']
  const assignments = written.slice(1).map(column => `\`${table}\`.${column} = changed.${column}`)
  /** Gives `rows` rows their new values: a statement for each would be a round trip for each. */
  const updateSql = (rows: number) => {
    const first = `SELECT ${written.map(column => `? AS ${column}`).join(', ')}`
    const others = ` UNION ALL SELECT ${written.map(() => '?').join(', ')}`.repeat(rows - 1)
    return `UPDATE \`${table}\` JOIN (${first}${others}) AS changed ON changed.id = \`${table}\`.id SET ${assignments.join(', ')}`
  }

  async function applyChanges(trx: Knex.Transaction, changes: readonly Change[]): Promise<Outcome[]> {
    // Locked in the order of their ids, so that two transactions never wait for each other's rows.
    const locked = await database.query(lockSql, [[...new Set(changes.map(({ id }) => id))]], trx)
    const rows = new Map(locked.map(readRow).map(row => [row.id, row]))
    const outcomes = new Map<Change, Outcome>()
    for (const round of roundsOf(changes)) await applyRound(trx, rows, round, outcomes)
    // What changed nothing takes nothing from the cache.
    if ([...outcomes.values()].some(outcome => outcome !== 'exists')) await renewGeneration(trx)
    return changes.map(change => outcomes.get(change))
  }

  /** Changes of different records, all at once if the unique index lets all of them in, else one after the other. */
  async function applyRound(
    trx: Knex.Transaction,
    rows: Map<number, Row>,
    round: readonly Change[],
    outcomes: Map<Change, Outcome>,
  ): Promise<void> {
    const changed = round.flatMap(change => {
      const row = rows.get(change.id)
      return row === undefined ? [] : [{ change, row: { ...row, ...change.values, version: newVersion() } }]
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

  const create = createGatherer(createAll, limits)
  const update = createGatherer(
    (changes: readonly Change[]) => database.transaction(trx => applyChanges(trx, changes)),
    limits,
  )

  return {
    create,
    createAll,
    update: (id, values) => update({ id, values }),
    remove: id =>
      database.transaction(async trx => {
        const removed = await trx(table).where({ id }).delete()
        if (removed > 0) await renewGeneration(trx)
        return removed > 0
      }),
  }
}
