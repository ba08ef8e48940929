// Inserts records. The unique index detects existing records; there is no query before the write. Concurrent
// inserts share a transaction and therefore one disk flush, but each has its own outcome.
import { MAX_ID, type Resource } from '../../model/resource.ts'
import { type Row, readRow, type Values } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import { type Counts, recordChange } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { LockedError, lockedAs } from '../lock-queue.ts'
import type { Transaction } from '../transaction.ts'
import { newVersion } from '../version.ts'
import { nameKey } from './row-locks.ts'

// New batches fill while others flush to disk. With a lower concurrency, the worker would wait for the disk.
const limits = { concurrency: 3, maxSize: 200, eager: true }

interface NewRow {
  readonly values: Values
  readonly version: number
}

export function createInserts(database: Database, counts: Counts, resource: Resource) {
  const { plural: table, unique } = resource
  const fields = Object.keys(resource.fields)
  const columns = [...fields, 'version'].join(', ')
  // Existing rows are left unchanged. MariaDB executes the comment, which saves it the first query below.
  const insertSql = `INSERT INTO \`${table}\` (${columns}) VALUES ?
    ON DUPLICATE KEY UPDATE version = \`${table}\`.version /*M! RETURNING id, version */`
  const readFromSql = `SELECT id, version FROM \`${table}\` WHERE id >= ? ORDER BY id LIMIT ?`
  const readBackSql = `SELECT id, version FROM \`${table}\` WHERE (${unique.join(', ')}) IN (?)`

  const isNameLocked = (values: Values) =>
    database.lockedKeys.size > 0 && database.lockedKeys.has(nameKey(resource, values))

  /** Names the lock that an INSERT of `rows` waits for. The database does not tell which of several names it is. */
  function lockKeyOf([row, ...others]: readonly NewRow[]): string {
    return row === undefined || others.length > 0
      ? `${table} of several names`
      : nameKey(resource, row.values)
  }

  /**
   * Inserts rows and returns the ids of the inserted ones by version. Versions are random, so a row with one
   * of these versions was inserted by this statement.
   */
  async function insert(trx: Transaction, rows: readonly NewRow[]): Promise<ReadonlyMap<number, number>> {
    const locked = trx.mayWait ? undefined : rows.find(row => isNameLocked(row.values))
    if (locked !== undefined) throw new LockedError(nameKey(resource, locked.values))
    const values = rows.map(row => [...fields.map(field => row.values[field] ?? null), row.version])
    const { insertId, returned } = await lockedAs(lockKeyOf(rows), trx.execute(insertSql, [values]))
    const missing = new Map(rows.map(row => [row.version, row]))
    const ids = new Map<number, number>()
    const collectIds = (stored: readonly Record<string, unknown>[]) => {
      for (const { id, version } of stored.map(readRow)) if (missing.delete(version)) ids.set(version, id)
      // Only after an id was set by SQL. As a JSON number it would be another id.
      if ([...ids.values()].some(id => id > MAX_ID))
        throw new Error(`the next id of ${table} is above ${MAX_ID}: delete the row with the highest id`)
    }
    // The ids of one INSERT are nearly always consecutive, but this is not guaranteed.
    collectIds(returned ?? (await trx.query(readFromSql, [insertId, rows.length])))
    if (returned === undefined && missing.size > 0) {
      const names = [...missing.values()].map(({ values }) => unique.map(field => values[field] ?? null))
      collectIds(await trx.query(readBackSql, [names]))
    }
    for (const [version, id] of ids) trx.noteChange({ table, id, before: undefined, after: version })
    const changes = [...ids.values()].map(id => recordChange(resource, id, 1))
    await counts.record(trx, changes)
    return ids
  }

  async function insertRows(trx: Transaction, entries: readonly Values[]): Promise<(Row | undefined)[]> {
    const rows = entries.map((values): NewRow => ({ values, version: newVersion() }))
    const ids = await insert(trx, rows)
    return rows.map(({ values, version }) => {
      const id = ids.get(version)
      return id === undefined ? undefined : { ...values, id, version }
    })
  }

  /**
   * Inserts all entries in one transaction. Returns undefined for an entry that already exists, also for one
   * that equals an earlier entry.
   * @param on the transaction to insert in
   */
  async function insertMany(entries: readonly Values[], on?: Transaction): Promise<(Row | undefined)[]> {
    if (entries.length === 0) return []
    return on === undefined ? database.transaction(trx => insertRows(trx, entries)) : insertRows(on, entries)
  }

  /** `locked`: another session has, or may have, locked the name. */
  async function insertFree(entries: readonly Values[]): Promise<(Row | undefined | 'locked')[]> {
    const free = entries.filter(values => !isNameLocked(values))
    const isFree = new Set(free)
    const inserted =
      free.length === 0 ? 'locked' : await database.tryTransaction(trx => insertRows(trx, free), free.length)
    if (inserted === 'locked') return entries.map(() => 'locked')
    const rows = inserted.values()
    return entries.map(values => (isFree.has(values) ? rows.next().value : 'locked'))
  }

  // Inserts of one name wait here for each other and not in the database.
  const keyOf = (values: Values) => nameKey(resource, values)
  const insertBatched = createBatcher(insertFree, { ...limits, keyOf })

  /** Returns undefined if the record already exists. @param on the transaction to insert in */
  async function insertOne(values: Values, on?: Transaction): Promise<Row | undefined> {
    if (on !== undefined) return (await insertRows(on, [values]))[0]
    const inserted = await insertBatched(values)
    if (inserted !== 'locked') return inserted
    const [row] = await database.transactionInQueue(keyOf(values), trx => insertRows(trx, [values]))
    return row
  }

  return { insertOne, insertMany }
}
