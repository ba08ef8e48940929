// Inserts records. The unique index detects existing records; there is no query before the write. Concurrent
// inserts share a transaction and therefore one disk flush, but each has its own outcome.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { type Row, readRow, type Values } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import { type Counts, recordChange } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { newVersion } from '../version.ts'

// New batches fill while others flush to disk. With a lower concurrency, the worker would wait for the disk.
const limits = { concurrency: 3, maxSize: 200, eager: true }

export interface Inserts {
  /** Returns undefined if the record already exists. @param on the transaction to insert in */
  insertOne(values: Values, on?: Knex.Transaction): Promise<Row | undefined>
  /**
   * Inserts all entries in one transaction. Returns undefined for an entry that already exists, also for one
   * that equals an earlier entry.
   * @param on the transaction to insert in
   */
  insertMany(entries: readonly Values[], on?: Knex.Transaction): Promise<(Row | undefined)[]>
}

interface NewRow {
  readonly values: Values
  readonly version: number
}

export function createInserts(database: Database, counts: Counts, resource: Resource): Inserts {
  const { plural: table, unique } = resource
  const fields = Object.keys(resource.fields)
  const columns = [...fields, 'version'].join(', ')
  // Existing rows are left unchanged.
  const insertSql = `INSERT INTO \`${table}\` (${columns}) VALUES ?
    ON DUPLICATE KEY UPDATE version = \`${table}\`.version`
  const readFromSql = `SELECT id, version FROM \`${table}\` WHERE id >= ? ORDER BY id LIMIT ?`
  const readBackSql = `SELECT id, version FROM \`${table}\` WHERE (${unique.join(', ')}) IN (?)`

  /**
   * Inserts rows and returns the ids of the inserted ones by version. Versions are random, so a row with one
   * of these versions was inserted by this statement.
   */
  async function insert(
    trx: Knex.Transaction,
    rows: readonly NewRow[],
  ): Promise<ReadonlyMap<number, number>> {
    const values = rows.map(row => [...fields.map(field => row.values[field] ?? null), row.version])
    const { insertId } = await database.execute(insertSql, [values], trx)
    const missing = new Map(rows.map(row => [row.version, row]))
    const ids = new Map<number, number>()
    const collectIds = (stored: readonly Record<string, unknown>[]) => {
      for (const { id, version } of stored.map(readRow)) if (missing.delete(version)) ids.set(version, id)
    }
    // The ids of one INSERT are nearly always consecutive, but this is not guaranteed.
    collectIds(await database.query(readFromSql, [insertId, rows.length], trx))
    if (missing.size > 0) {
      const names = [...missing.values()].map(({ values }) => unique.map(field => values[field] ?? null))
      collectIds(await database.query(readBackSql, [names], trx))
    }
    const changes = [...ids.values()].map(id => recordChange(resource, id, 1))
    await counts.record(trx, changes)
    return ids
  }

  async function insertMany(entries: readonly Values[], on?: Knex.Transaction): Promise<(Row | undefined)[]> {
    if (entries.length === 0) return []
    const rows = entries.map((values): NewRow => ({ values, version: newVersion() }))
    const ids = await (on === undefined ? database.transaction(trx => insert(trx, rows)) : insert(on, rows))
    return rows.map(({ values, version }) => {
      const id = ids.get(version)
      return id === undefined ? undefined : { ...values, id, version }
    })
  }

  const insertBatched = createBatcher((entries: readonly Values[]) => insertMany(entries), limits)
  return {
    insertMany,
    insertOne: async (values, on) =>
      on === undefined ? insertBatched(values) : (await insertMany([values], on))[0],
  }
}
