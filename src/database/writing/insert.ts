// Inserts records. The unique index detects existing records; there is no query before the write.
import { MAX_ID, type Resource } from '../../model/resource.ts'
import { readRow, type Values } from '../../model/row.ts'
import type { Database } from '../database.ts'
import type { Outcome } from '../lane/outcome.ts'
import type { Item, Writer } from '../lane/writer.ts'
import type { Transaction } from '../transaction.ts'
import { newVersion } from '../version.ts'
import { createNames, noWait } from './names.ts'

/** Records to insert. An entry that equals an earlier one exists already. */
interface Insert extends Item {
  readonly entries: readonly Values[]
}

interface NewRow {
  readonly values: Values
  readonly version: number
}

export function createInsert(database: Database, resource: Resource): Writer<Insert> {
  const { plural: table } = resource
  const { namesOf, keyOf, assertFree, heldItems } = createNames(database, resource, 'update')
  const fields = Object.keys(resource.fields)
  const columns = [...fields, 'version'].join(', ')
  // Existing rows are left unchanged. MariaDB executes the comment, which saves it the query below.
  const insertSql = `${noWait} INSERT INTO \`${table}\` (${columns}) VALUES ?
    ON DUPLICATE KEY UPDATE version = \`${table}\`.version /*M! RETURNING id, version */`
  const readSql = `SELECT id, version FROM \`${table}\` WHERE id >= ? AND version IN (?)`

  /**
   * Inserts rows and returns the ids of stored rows by version. Versions are random, so a row with one of these versions was
   * inserted by this statement.
   */
  async function insert(trx: Transaction, rows: readonly NewRow[]): Promise<ReadonlyMap<number, number>> {
    if (rows.length === 0) return new Map()
    const values = rows.map(row => [...fields.map(field => row.values[field] ?? null), row.version])
    const { insertId, returned } = await trx.execute(insertSql, [values])
    // MySQL returns the id of the first new row, or 0 without one. The ids of the others are greater, but need not be consecutive. An
    // id above MAX_ID is not exact here.
    const versions = rows.map(({ version }) => version)
    const readBack = () => (insertId === 0 ? [] : trx.query(readSql, [Math.min(insertId, MAX_ID), versions]))
    const stored = (returned ?? (await readBack())).map(readRow)
    return new Map(stored.map(({ id, version }) => [version, id]))
  }

  return database.createWriter<Insert>({
    keysOf: ({ entries }) => namesOf(entries).map(keyOf),

    async apply(trx, items) {
      await assertFree(
        trx,
        items.flatMap(({ entries }) => entries),
      )
      const rows = items.map(({ entries }) =>
        entries.map((values): NewRow => ({ values, version: newVersion() })),
      )
      const ids = await insert(trx, rows.flat())
      return items.map(({ origin }, index) =>
        (rows[index] ?? []).map(({ values, version }): Outcome => {
          const id = ids.get(version)
          if (id === undefined) return 'exists'
          // Only after an id was set by SQL. As a JSON number it would be another id.
          if (id > MAX_ID)
            throw new Error(
              `the next id of ${table} is above ${MAX_ID}: delete the row with the highest id, and run ALTER TABLE \`${table}\` AUTO_INCREMENT = 1`,
            )
          trx.record({ type: 'created', resource, id, before: undefined, after: version, origin })
          // V8 adds members to a copied object far more slowly than it copies members into a new one.
          return { row: { id, version, ...values }, changed: true }
        }),
      )
    },

    held: items => heldItems(items, ({ entries }) => namesOf(entries)),
  })
}
