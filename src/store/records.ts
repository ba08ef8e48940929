// The SQL of a resource, from its definition: reads, and writes in which the unique index decides.
import type { Knex } from 'knex'
import { type Resource, type Row, readRow, type Values } from '../resources/definition.ts'
import type { Database } from './database.ts'
import { isDuplicate } from './failures.ts'
import { applyFilters, applySort, type Filter, type SortKey } from './predicates.ts'
import { newVersion } from './version.ts'

export interface PageQuery {
  readonly filters: readonly Filter[]
  readonly sort: readonly SortKey[]
  readonly startIndex: number
  readonly recordsPerPage: number
}

type NewRow = { readonly version: number } & { readonly [field: string]: string | number | null }

interface Page {
  readonly rows: readonly Row[]
  /** How many records there are in all, at the very moment the page was read. */
  readonly total: number
}

export interface Records {
  /** Those that there are, in no order. */
  read(ids: readonly number[]): Promise<Row[]>
  /** @param knex the transaction to read in, if it is not to be the moment of the call */
  page(query: PageQuery, knex?: Knex): Promise<Page>
  /** Stores every entry that the unique index lets in, the first of equals; the others are undefined, in their place. */
  create(entries: readonly Values[]): Promise<(Row | undefined)[]>
  /** Changes some fields, or all. `exists` where the unique index forbids it, undefined where there is no such id. */
  update(id: number, values: Values): Promise<Row | 'exists' | undefined>
  /** @returns whether there was such an id */
  remove(id: number): Promise<boolean>
}

/** Tells every cached include that holds a resource of this kind that it is out of date. */
async function renewGeneration(trx: Knex.Transaction, { generation }: Resource): Promise<void> {
  if (generation !== undefined) await trx(generation).where({ id: 1 }).update({ token: newVersion() })
}

export function createRecords(database: Database, resource: Resource): Records {
  const { plural: table } = resource
  const { knex } = database
  const fields = Object.keys(resource.fields)

  /** The columns of a row, and the generation of what it may include, all of one moment. */
  function columns(): (string | Knex.QueryBuilder)[] {
    const generation = resource.relation?.to.generation
    const own = ['id', 'version', ...fields].map(field => `${table}.${field}`)
    return generation === undefined ? own : [...own, knex(generation).select('token').as('generation')]
  }

  const selectByIds = knex(table).select(columns()).whereIn('id', [0]).toSQL().sql

  function pageStatement(query: PageQuery, on: Knex): Knex.QueryBuilder {
    const page = on(table).select(columns()).limit(query.recordsPerPage).offset(query.startIndex)
    const count = on(table).count({ total: '*' })
    for (const builder of [page, count]) applyFilters(builder, resource, query.filters)
    applySort(page, table, query.sort)
    // One statement sees one moment, so the total is that of the page.
    const whole = on
      .select('page.*', 'counted.total')
      .from(count.as('counted'))
      .leftJoin(page.as('page'), on.raw('TRUE'))
    applySort(whole, 'page', query.sort)
    return whole
  }

  async function insert(trx: Knex, rows: readonly NewRow[]): Promise<Map<number, number>> {
    // Whoever is there already stays as it is.
    await trx(table)
      .insert([...rows])
      .onConflict()
      .merge({ version: trx.ref(`${table}.version`) })
    // Our own rows are those with our versions. The ids of one INSERT need not be consecutive.
    const stored: { id: number; version: number }[] = await trx(table)
      .select('id', 'version')
      .whereIn(
        [...resource.unique],
        rows.map(row => resource.unique.map(field => row[field] ?? null)),
      )
    return new Map(stored.map(({ id, version }) => [version, id]))
  }

  return {
    async read(ids) {
      return (await database.read(selectByIds, [ids])).map(readRow)
    },

    async page(query, on) {
      const statement = (within: Knex) => pageStatement(query, within)
      const found: Record<string, unknown>[] = await (on === undefined
        ? database.run(statement)
        : statement(on))
      const total = Number(found[0]?.total)
      // A page past the end is one row that has nothing but the total.
      return { total, rows: found.filter(row => row.id !== null).map(readRow) }
    },

    async create(entries) {
      const rows = entries.map((values): NewRow => ({ ...values, version: newVersion() }))
      const [only, ...others] = rows
      if (only === undefined) return []
      if (others.length === 0) {
        try {
          const [id] = await database.run(() => knex(table).insert(only))
          return [readRow({ id, ...only })]
        } catch (error) {
          if (isDuplicate(error)) return [undefined]
          throw error
        }
      }
      const ids = await database.transaction(trx => insert(trx, rows))
      return rows.map(row => {
        const id = ids.get(row.version)
        return id === undefined ? undefined : readRow({ id, ...row })
      })
    },

    async update(id, values) {
      try {
        return await database.transaction(async trx => {
          await renewGeneration(trx, resource)
          const matched = await trx(table)
            .where({ id })
            .update({ ...values, version: newVersion() })
          if (matched === 0) return undefined
          return readRow(
            await trx(table)
              .select('id', 'version', ...fields)
              .where({ id })
              .first(),
          )
        })
      } catch (error) {
        if (isDuplicate(error)) return 'exists'
        throw error
      }
    },

    remove: id =>
      database.transaction(async trx => {
        await renewGeneration(trx, resource)
        return (await trx(table).where({ id }).delete()) > 0
      }),
  }
}
