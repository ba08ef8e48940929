// Reading records, by SQL that comes from their definition.
import type { Knex } from 'knex'
import { type Resource, type Row, readRow } from '../resources/definition.ts'
import { SLOT_IDS, seekSql } from './counts.ts'
import type { Database } from './database.ts'
import { applySort, type Filter, matching, type SortKey, totalSql } from './predicates.ts'

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

interface Start {
  readonly id: number
  readonly skip: number
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

  /** @param from where to begin, if that is known: the first id to look at, and how many records to skip from there */
  function pageStatement(query: PageQuery, on: Knex, from?: Start): Knex.QueryBuilder {
    const shown = matching(on, resource, query.filters)
      .select(`${table}.id`)
      .limit(query.recordsPerPage)
      .offset(from?.skip ?? query.startIndex)
    if (from !== undefined) shown.where(`${table}.id`, '>=', from.id)
    applySort(shown, table, query.sort)
    // One statement sees one moment, so the total is that of the page. The rows themselves are read last, those that are
    // shown alone: what is skipped is skipped in an index.
    const page = on
      .select('counted.total', ...columns())
      .from(on.select(on.raw('? AS total', [totalSql(on, resource, query.filters)])).as('counted'))
      .leftJoin(shown.as('shown'), on.raw('TRUE'))
      .leftJoin(table, `${table}.id`, 'shown.id')
    applySort(page, table, query.sort)
    return page
  }

  /** Far into all records the counts say where a page begins: skipping them one by one would take longer and longer. */
  async function deepPage(query: PageQuery, trx: Knex): Promise<Record<string, unknown>[]> {
    const [at] = await seekSql(trx, resource, query.startIndex)
    if (at?.slot == null) return pageStatement({ ...query, startIndex: 0, recordsPerPage: 0 }, trx)
    const start = { id: Number(at.slot) * SLOT_IDS, skip: query.startIndex - Number(at.skipped) }
    return pageStatement(query, trx, start)
  }

  const isById = ({ column, descending }: SortKey) => column === 'id' && !descending
  const isDeep = ({ filters, sort, startIndex }: PageQuery) =>
    filters.length === 0 && sort.every(isById) && startIndex >= SLOT_IDS

  function find(query: PageQuery, on: Knex | undefined): Promise<Record<string, unknown>[]> {
    if (isDeep(query))
      return on === undefined ? database.snapshot(trx => deepPage(query, trx)) : deepPage(query, on)
    if (on === undefined) return database.run(knex => pageStatement(query, knex))
    return pageStatement(query, on)
  }

  return {
    async read(ids) {
      return (await database.query(selectByIds, [ids])).map(readRow)
    },

    async page(query, on) {
      const found = await find(query, on)
      // A page past the end is one row that has nothing but the total.
      return { total: Number(found[0]?.total), rows: found.filter(row => row.id !== null).map(readRow) }
    },
  }
}
