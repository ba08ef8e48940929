// What `include` embeds, cached in Redis so that it can never be stale: the key names the version of the record and the
// generation of what it is related to. Both come with the record's own row; whatever changes one of them changes the key.
import type { Knex } from 'knex'
import type { Cache } from '../../cache/cache.ts'
import { embeddedText } from '../../model/representation.ts'
import type { Relation, Resource } from '../../model/resource.ts'
import type { Row } from '../../model/row.ts'
import type { Database } from '../database.ts'

export interface Includes {
  /**
   * What each of `rows` embeds, in their order, as JSON text of an array; undefined where a row is no longer as it was
   * read: whoever needs both has to read again.
   */
  of(rows: readonly Row[]): Promise<(string | undefined)[]>
  /** The same from the moment that the transaction sees, past the cache. */
  within(trx: Knex, rows: readonly Row[]): Promise<string[]>
}

/** A record's related ones, and the version and generation that they belong to. */
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

  const keyOf = (id: unknown, version: unknown, generation: unknown) =>
    `users-api:${resource.singular}:${id}:${relation.name}:${version}:${generation}`
  const keyOfRow = (row: Row) => keyOf(row.id, row.version, row.generation)

  /** One row for each related record, and one without a related id for a record that has none. */
  function statement(on: Knex, ids: readonly number[]): Knex.QueryBuilder {
    const own = resource.plural
    return (
      on(own)
        .leftJoin(table, `${table}.${ownKey}`, `${own}.id`)
        .leftJoin(to.plural, `${to.plural}.id`, `${table}.${otherKey}`)
        .whereIn(`${own}.id`, [...ids])
        // Not by the related table's own id: MariaDB would begin there, and sort in a temporary table.
        .orderBy([`${own}.id`, `${table}.${otherKey}`])
        .select({ own_id: `${own}.id`, own_version: `${own}.version` })
        .select(['id', ...fields].map(field => `${to.plural}.${field}`))
        .select(to.generation === undefined ? [] : on(to.generation).select('token').as('generation'))
    )
  }

  const selectByIds = statement(database.knex, [0]).toSQL().sql

  function relatedFrom(rows: readonly Record<string, unknown>[]): Map<number, Related> {
    const gathered = new Map<number, { key: string; texts: string[] }>()
    for (const row of rows) {
      const id = Number(row.own_id)
      let related = gathered.get(id)
      if (related === undefined) {
        related = { key: keyOf(id, row.own_version, row.generation), texts: [] }
        gathered.set(id, related)
      }
      if (row.id !== null) related.texts.push(embeddedText(to, row))
    }
    return new Map([...gathered].map(([id, { key, texts }]) => [id, { key, text: `[${texts.join(',')}]` }]))
  }

  /** Reads from the database what the cache did not have, and stores it there under the version that was read. */
  async function readMissing(rows: readonly Row[]): Promise<ReadonlyMap<string, string>> {
    const related = relatedFrom(await database.query(selectByIds, [rows.map(row => row.id)]))
    const entries = [...related.values()].map(({ key, text }) => [key, text] as const)
    cache.write(entries)
    return new Map(entries)
  }

  return {
    async of(rows) {
      const keys = rows.map(keyOfRow)
      const texts = await cache.read(keys)
      const missing = rows.filter((_, at) => texts[at] === undefined)
      if (missing.length === 0) return texts
      const fresh = await readMissing(missing)
      return keys.map((key, at) => texts[at] ?? fresh.get(key))
    },

    async within(trx, rows) {
      const ids = rows.map(row => row.id)
      const related = relatedFrom(await statement(trx, ids))
      return rows.map(row => related.get(row.id)?.text ?? '[]')
    },
  }
}
