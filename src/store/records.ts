// Reading records, by SQL that comes from their definition.
import type { Knex } from 'knex'
import { type Resource, type Row, readRow } from '../resources/definition.ts'
import type { Database } from './database.ts'
import { applyFilters, applySort, type Filter, type SortKey } from './predicates.ts'

export interface PageQuery {
  readonly filters: readonly Filter[]
  readonly sort: readonly SortKey[]
  readonly startIndex: number
  readonly recordsPerPage: number
}

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

  return {
    async read(ids) {
      return (await database.query(selectByIds, [ids])).map(readRow)
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
  }
}
