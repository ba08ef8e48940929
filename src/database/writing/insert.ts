// Inserts records. The unique index decides what exists already, never a look before the write. Creates that arrive
// together share a transaction, and so a flush to the disk; each has its own outcome.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { type Row, readRow, type Values } from '../../model/row.ts'
import { createBatcher } from '../batcher.ts'
import { type Counts, recordChange } from '../counting/counts.ts'
import type { Database } from '../database.ts'
import { newVersion } from '../version.ts'

// While transactions are flushed, others gather: with fewer lanes the worker would wait for the disk.
const limits = { concurrency: 3, maxSize: 200, eager: true }

export interface Inserts {
  /** Undefined where the unique index does not let it in. @param on a transaction that it is to be part of */
  insertOne(values: Values, on?: Knex.Transaction): Promise<Row | undefined>
  /** All in one transaction: every entry that the unique index lets in, the first of equals; undefined for the others. */
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
  // Whoever is there already stays as it is.
  const insertSql = `INSERT INTO \`${table}\` (${columns}) VALUES ?
    ON DUPLICATE KEY UPDATE version = \`${table}\`.version`
  const readFromSql = `SELECT id, version FROM \`${table}\` WHERE id >= ? ORDER BY id LIMIT ?`
  const readBackSql = `SELECT id, version FROM \`${table}\` WHERE (${unique.join(', ')}) IN (?)`

  /** The ids of those that were let in, by version: our own rows are those with our versions. */
  async function insert(
    trx: Knex.Transaction,
    rows: readonly NewRow[],
  ): Promise<ReadonlyMap<number, number>> {
    const values = rows.map(row => [...fields.map(field => row.values[field] ?? null), row.version])
    const { insertId } = await database.execute(insertSql, [values], trx)
    const missing = new Map(rows.map(row => [row.version, row]))
    const ids = new Map<number, number>()
    const found = (stored: readonly Record<string, unknown>[]) => {
      for (const { id, version } of stored.map(readRow)) if (missing.delete(version)) ids.set(version, id)
    }
    // Nearly always the ids of one INSERT follow each other, but nothing promises it.
    found(await database.query(readFromSql, [insertId, rows.length], trx))
    if (missing.size > 0) {
      const names = [...missing.values()].map(({ values }) => unique.map(field => values[field] ?? null))
      found(await database.query(readBackSql, [names], trx))
    }
    const created = [...ids.values()].map(id => recordChange(resource, id, 1))
    await counts.record(trx, created)
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

  const gathered = createBatcher((entries: readonly Values[]) => insertMany(entries), limits)
  return {
    insertMany,
    insertOne: async (values, on) =>
      on === undefined ? gathered(values) : (await insertMany([values], on))[0],
  }
}
