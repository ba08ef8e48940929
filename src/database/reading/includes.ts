// The embedded records of `include`, cached in Redis. The cache key contains the version of the record and
// the generation of the related resources, both read with the record's row. A change to either changes the
// key, so no entry is out of date. Texts are read in portions, so that a large page neither blocks the event loop
// nor needs much more memory than its response.
import type { Cache } from '../../cache/cache.ts'
import { embeddedText, isListOfRecords, representationOf } from '../../model/representation.ts'
import { columnsOf, type Relation, type Resource } from '../../model/resource.ts'
import { type Row, readRow } from '../../model/row.ts'
import type { Database } from '../database.ts'
import type { Columns } from '../results.ts'
import type { Statements } from '../transaction.ts'
import { generationColumns } from '../version.ts'

/** Called with each text as soon as it is read. An error that it throws ends the reading. */
type OnText = (text: string) => void

/** A row and its related records at the same moment. */
export interface Included {
  /** The row with the generation at which its related records were read, which can be a later one than before. */
  readonly row: Row
  /** The related records, as the JSON text of an array. */
  readonly text: string
}

/**
 * Returns the related records of each row, in order; undefined if the row has changed since it was read. The caller must
 * then read the row again.
 * @param on the snapshot in which the rows were read, and have not changed
 */
export type Includes = (
  rows: readonly Row[],
  onText?: OnText,
  on?: Statements,
) => Promise<(Included | undefined)[]>

/** Maximum number of records whose texts are read from the cache at a time. */
const MAX_RECORDS = 100
/** Maximum number of related records that are read from the database at a time. */
const MAX_ROWS = 5000

export function createIncludes(
  database: Database,
  cache: Cache,
  resource: Resource,
  relation: Relation,
): Includes {
  const { to, table, fromKey, toKey } = relation
  const { knex } = database
  const { plural: own } = resource

  const prefix = `users-api:${representationOf(resource)}:${resource.singular}`
  const keyOf = ({ id, version, generation }: Row) =>
    `${prefix}:${id}:${relation.name}:${version}:${generation}`

  const pairs = knex(table).select(fromKey, toKey).whereIn(fromKey, [0]).orderBy([fromKey, toKey]).limit(1)
  /**
   * Selects one row per related record, in no particular order; for a record without any, one row with a NULL
   * related id. The limit applies to the pairs alone, which an index has in order: a limit of the whole join would
   * sort all of it first.
   */
  const selectByIds = knex(own)
    .leftJoin(pairs.as('pairs'), `pairs.${fromKey}`, `${own}.id`)
    .leftJoin(to.plural, `${to.plural}.id`, `pairs.${toKey}`)
    .whereIn(`${own}.id`, [0])
    .select({ own_id: `${own}.id`, own_version: `${own}.version` })
    .select(columnsOf(to).map(column => `${to.plural}.${column}`))
    .select(generationColumns(knex, resource))
    .toSQL().sql

  /** Returns the related records with the ids, versions and generations of their records. */
  function groupRows(rows: readonly Columns[]): Included[] {
    const grouped = new Map<number, { own: Row; texts: string[] }>()
    for (const row of rows) {
      const id = Number(row.own_id)
      let related = grouped.get(id)
      if (related === undefined) {
        related = { own: readRow({ ...row, id, version: row.own_version }), texts: [] }
        grouped.set(id, related)
      }
      if (row.id !== null) related.texts.push(embeddedText(to, row))
    }
    return Array.from(grouped.values(), ({ own, texts }) => ({ row: own, text: `[${texts.join(',')}]` }))
  }

  /** Reads the related records from the database, some records at a time. */
  async function* readPortions(ids: readonly number[], on: Statements) {
    let remaining = ids
    let maxRows = MAX_ROWS
    for (;;) {
      const rows = await on.query(selectByIds, [remaining, maxRows + 1, remaining])
      rows.sort((a, b) => Number(a.id) - Number(b.id))
      const related = rows.filter(({ id }) => id !== null)
      if (related.length <= maxRows) {
        yield groupRows(rows)
        return
      }
      // From the record with the last pair on, the rows are incomplete.
      const lastId = related.reduce((max, { own_id }) => Math.max(max, Number(own_id)), 0)
      yield groupRows(rows.filter(({ own_id }) => Number(own_id) < lastId))
      // A record that has more rows than the limit alone needs a higher one.
      if (related.every(({ own_id }) => Number(own_id) === lastId)) maxRows *= 2
      remaining = remaining.filter(id => id >= lastId)
    }
  }

  /** Reads cache misses from the database and caches them under the version and the generation that were read. */
  async function readMissing(ids: readonly number[], onText: OnText | undefined, on: Statements) {
    const found = new Map<number, Included>()
    for await (const portion of readPortions(ids, on)) {
      cache.write(portion.map(({ row, text }) => [keyOf(row), text]))
      for (const fresh of portion) {
        onText?.(fresh.text)
        found.set(fresh.row.id, fresh)
      }
    }
    return found
  }

  async function readRecords(rows: readonly Row[], onText: OnText | undefined, on: Statements) {
    const cached = await cache.read(rows.map(keyOf))
    const texts = cached.map(text => (text !== undefined && isListOfRecords(text) ? text : undefined))
    for (const text of texts) if (text !== undefined) onText?.(text)
    const missing = rows.flatMap(({ id }, index) => (texts[index] === undefined ? [id] : []))
    const found = missing.length === 0 ? undefined : await readMissing(missing, onText, on)
    return rows.map((row, index): Included | undefined => {
      const text = texts[index]
      if (text !== undefined) return { row, text }
      const fresh = found?.get(row.id)
      if (fresh?.row.version !== row.version) return undefined
      return { row: { ...row, generation: fresh.row.generation }, text: fresh.text }
    })
  }

  return async (rows, onText, on = database) => {
    const included: (Included | undefined)[] = []
    for (let first = 0; first < rows.length; first += MAX_RECORDS)
      included.push(...(await readRecords(rows.slice(first, first + MAX_RECORDS), onText, on)))
    return included
  }
}
