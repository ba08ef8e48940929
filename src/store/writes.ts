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

interface Change {
  readonly id: number
  readonly values: Values
}

export function createWrites(database: Database, resource: Resource): Writes {
  const { plural: table, unique } = resource
  const fields = Object.keys(resource.fields)

  /** Tells every cached include that holds a resource of this kind that it is out of date. */
  async function renewGeneration(trx: Knex.Transaction): Promise<void> {
    const { generation } = resource
    if (generation !== undefined) await trx(generation).where({ id: 1 }).update({ token: newVersion() })
  }

  const insertSql = `INSERT INTO \`${table}\` (${[...fields, 'version'].join(', ')}) VALUES ?
    ON DUPLICATE KEY UPDATE version = \`${table}\`.version`
  const readBackSql = `SELECT id, version FROM \`${table}\` WHERE (${unique.join(', ')}) IN (?)`

  /** The ids of those that were let in, by version. */
  async function insert(trx: Knex.Transaction, rows: readonly Values[], versions: readonly number[]) {
    const values = rows.map((row, at) => [...fields.map(field => row[field] ?? null), versions[at]])
    // Whoever is there already stays as it is.
    await database.query(insertSql, [values], trx)
    // Our own rows are those with our versions. The ids of one INSERT need not be consecutive.
    const names = rows.map(row => unique.map(field => row[field] ?? null))
    const stored = await database.query(readBackSql, [names], trx)
    return new Map(stored.map(row => [row.version, row.id]))
  }

  async function createAll(entries: readonly Values[]): Promise<(Row | undefined)[]> {
    if (entries.length === 0) return []
    const versions = entries.map(newVersion)
    const ids = await database.transaction(trx => insert(trx, entries, versions))
    return entries.map((values, at) => {
      const version = versions[at] ?? 0
      const id = ids.get(version)
      return id === undefined ? undefined : readRow({ ...values, id, version })
    })
  }

  /** One after the other, each seeing what those before it left. */
  async function applyChanges(trx: Knex.Transaction, changes: readonly Change[]) {
    await renewGeneration(trx)
    // Locked in the order of their ids, so that two transactions never wait for each other's rows.
    const found: unknown[] = await trx(table)
      .whereIn('id', [...new Set(changes.map(({ id }) => id))])
      .orderBy('id')
      .forUpdate()
      .select('id', 'version', ...fields)
    const rows = new Map(found.map(readRow).map(row => [row.id, row]))
    const outcomes: (Row | 'exists' | undefined)[] = []
    for (const { id, values } of changes) {
      const row = rows.get(id)
      if (row === undefined) outcomes.push(undefined)
      else outcomes.push(await applyChange(trx, rows, { ...row, ...values, version: newVersion() }, values))
    }
    return outcomes
  }

  async function applyChange(trx: Knex, rows: Map<number, Row>, changed: Row, values: Values) {
    const { id, version } = changed
    try {
      await trx(table)
        .where({ id })
        .update({ ...values, version })
    } catch (error) {
      // Only this statement is undone.
      if (isDuplicate(error)) return 'exists'
      throw error
    }
    rows.set(id, changed)
    return changed
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
        await renewGeneration(trx)
        return (await trx(table).where({ id }).delete()) > 0
      }),
  }
}
