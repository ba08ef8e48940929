// The embedded records of `include`, cached in Redis. The cache key contains the version of the record and
// the generation of the related resource, both read with the record's row. A change to either changes the
// key, so no entry is stale.
import type { Knex } from 'knex'
import type { Cache } from '../../cache/cache.ts'
import { embeddedText, isListOfRecords, representationOf } from '../../model/representation.ts'
import type { Relation, Resource } from '../../model/resource.ts'
import { type Row, readRow } from '../../model/row.ts'
import type { Database } from '../database.ts'

export interface Includes {
  /**
   * Returns the related records of each row, in order, as the JSON text of an array; undefined if the row has
   * changed since it was read. The caller must then read the row again.
   */
  of(rows: readonly Row[]): Promise<(string | undefined)[]>
  /** Returns the related records in the snapshot of the transaction, without the cache. */
  within(trx: Knex, rows: readonly Row[]): Promise<string[]>
}

/** The JSON text of the related records of a record, and its cache key. */
interface Related {
  readonly key: string
  readonly text: string
}

export function createIncludes(
  database: Database,
  cache: Cache,
  resource: Resource,
  relation: Relation,
): Includes {
  const { to, table, ownKey, otherKey } = relation
  const fields = Object.keys(to.fields)

  const prefix = `users-api:${representationOf(resource)}:${resource.singular}`
  const keyOf = ({ id, version, generation }: Row) =>
    `${prefix}:${id}:${relation.name}:${version}:${generation}`

  /** Selects one row per related record; for a record without any, one row with a NULL related id. */
  function statement(on: Knex, ids: readonly number[]): Knex.QueryBuilder {
    const own = resource.plural
    return (
      on(own)
        .leftJoin(table, `${table}.${ownKey}`, `${own}.id`)
        .leftJoin(to.plural, `${to.plural}.id`, `${table}.${otherKey}`)
        .whereIn(`${own}.id`, [...ids])
        // By the id of the related table, MariaDB would start there and sort in a temporary table.
        .orderBy([`${own}.id`, `${table}.${otherKey}`])
        .select({ own_id: `${own}.id`, own_version: `${own}.version` })
        .select(['id', ...fields].map(field => `${to.plural}.${field}`))
        .select(to.generation === undefined ? [] : on(to.generation).select('token').as('generation'))
    )
  }

  const selectByIds = statement(database.knex, [0]).toSQL().sql

  function relatedFrom(rows: readonly Record<string, unknown>[]): Map<number, Related> {
    const grouped = new Map<number, { key: string; texts: string[] }>()
    for (const row of rows) {
      const id = Number(row.own_id)
      let related = grouped.get(id)
      if (related === undefined) {
        const own = readRow({
          id,
          version: row.own_version,
          ...(to.generation && { generation: row.generation }),
        })
        related = { key: keyOf(own), texts: [] }
        grouped.set(id, related)
      }
      if (row.id !== null) related.texts.push(embeddedText(to, row))
    }
    return new Map([...grouped].map(([id, { key, texts }]) => [id, { key, text: `[${texts.join(',')}]` }]))
  }

  /** Reads cache misses from the database and caches them under the version that was read. */
  async function readMissing(rows: readonly Row[]): Promise<ReadonlyMap<string, string>> {
    const related = relatedFrom(await database.query(selectByIds, [rows.map(row => row.id)]))
    const entries = [...related.values()].map(({ key, text }) => [key, text] as const)
    cache.write(entries)
    return new Map(entries)
  }

  return {
    async of(rows) {
      const keys = rows.map(keyOf)
      const cached = await cache.read(keys)
      const texts = cached.map(text => (text !== undefined && isListOfRecords(text) ? text : undefined))
      const missing = rows.filter((_, index) => texts[index] === undefined)
      if (missing.length === 0) return texts
      const fresh = await readMissing(missing)
      return keys.map((key, index) => texts[index] ?? fresh.get(key))
    },

    async within(trx, rows) {
      const ids = rows.map(row => row.id)
      const related = relatedFrom(await statement(trx, ids))
      return rows.map(row => related.get(row.id)?.text ?? '[]')
    },
  }
}
