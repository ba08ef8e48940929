// What `include` embeds, cached in Redis so that it can never be stale: the key names the version of the record and the
// generation of what it is related to. Both come with the record's own row; whatever changes one of them changes the key.
import type { Knex } from 'knex'
import type { Relation, Resource, Row } from '../resources/definition.ts'
import { embeddedText } from '../resources/representation.ts'
import type { Cache } from './cache.ts'
import type { Database } from './database.ts'
import { createLoader } from './loader.ts'

const LANES = 2

export interface Includes {
  /**
   * What each of `rows` embeds, in their order, as JSON text of an array.
   * Undefined where one of the rows is no longer as it was read: whoever needs both has to read again.
   */
  of(rows: readonly Row[]): Promise<string[] | undefined>
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
    return on(own)
      .leftJoin(table, `${table}.${ownKey}`, `${own}.id`)
      .leftJoin(to.plural, `${to.plural}.id`, `${table}.${otherKey}`)
      .whereIn(`${own}.id`, [...ids])
      .orderBy([`${own}.id`, `${to.plural}.id`])
      .select({ own_id: `${own}.id`, own_version: `${own}.version` })
      .select(['id', ...fields].map(field => `${to.plural}.${field}`))
      .select(to.generation === undefined ? [] : on(to.generation).select('token').as('generation'))
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

  const cached = createLoader<string, string>(async keys => {
    const values = await cache.read(keys)
    return new Map(keys.flatMap((key, at) => (values[at] === undefined ? [] : [[key, values[at]]])))
  }, LANES)

  const stored = createLoader<number, Related>(async ids => {
    const related = relatedFrom(await database.read(selectByIds, [ids]))
    cache.write([...related.values()].map(({ key, text }) => [key, text]))
    return related
  }, LANES)

  return {
    async of(rows) {
      const keys = rows.map(keyOfRow)
      const texts = await cached.load(keys)
      const missing = rows.filter((_, at) => texts[at] === undefined)
      if (missing.length === 0) return texts.filter(text => text !== undefined)
      const related = await stored.load(missing.map(row => row.id))
      const fresh = new Map(related.flatMap(one => (one === undefined ? [] : [[one.key, one.text]])))
      const complete = keys.map((key, at) => texts[at] ?? fresh.get(key)).filter(text => text !== undefined)
      return complete.length === rows.length ? complete : undefined
    },

    async within(trx, rows) {
      const ids = rows.map(row => row.id)
      const related = relatedFrom(await statement(trx, ids))
      return rows.map(row => related.get(row.id)?.text ?? '[]')
    },
  }
}
