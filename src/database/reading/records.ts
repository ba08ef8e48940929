// Reads records with SQL that is generated from the definition of their resource.
import type { Knex } from 'knex'
import { unavailable } from '../../core/api-error.ts'
import type { Resource } from '../../model/resource.ts'
import { type Row, readRow } from '../../model/row.ts'
import { totalSql } from '../counting/totals.ts'
import type { Database } from '../database.ts'
import { generationColumns } from '../version.ts'
import type { PageQuery } from './page-query.ts'
import { type PageSeek, seekFor } from './page-seek.ts'
import { applySort, idOfMatching, matching } from './predicates.ts'

interface Page {
  readonly rows: readonly Row[]
  /** The number of records on all pages, in the same snapshot as the page. */
  readonly total: number
}

export interface Records {
  /** Returns the existing records, in no particular order. @param trx the transaction to read in */
  read(ids: readonly number[], trx?: Knex.Transaction): Promise<Row[]>
  /** @param knex the transaction to read in; by default, the page has its own snapshot */
  page(query: PageQuery, knex?: Knex): Promise<Page>
}

export function createRecords(database: Database, resource: Resource): Records {
  const { plural: table } = resource
  const { knex } = database
  const fields = Object.keys(resource.fields)

  /** The columns of a row and the generation of its related resources, for one statement. */
  const columns = [
    ...['id', 'version', ...fields].map(field => `${table}.${field}`),
    ...generationColumns(knex, resource),
  ]

  const selectByIds = knex(table).select(columns).whereIn('id', [0]).toSQL().sql

  function pageStatement(query: PageQuery, on: Knex, { narrow, skip }: PageSeek = {}): Knex.QueryBuilder {
    const id = idOfMatching(resource, query.filters)
    const shown = matching(on, resource, query.filters, query.sort)
      .select({ id })
      .limit(query.recordsPerPage)
      .offset(skip ?? query.startIndex)
    narrow?.(shown)
    applySort(shown, table, query.sort, id)
    // One statement reads one snapshot, so the total belongs to the page. The inner query skips and selects
    // ids in an index; complete rows are read only for these ids.
    const page = on
      .select('counted.total', ...columns)
      .from(on.select(on.raw('? AS total', [totalSql(on, resource, query.filters)])).as('counted'))
      .leftJoin(shown.as('shown'), on.raw('TRUE'))
      .leftJoin(table, `${table}.id`, 'shown.id')
    applySort(page, table, query.sort)
    return page
  }

  function find(query: PageQuery, on: Knex | undefined): Promise<Record<string, unknown>[]> {
    const prepare = seekFor(resource, query)
    if (prepare === undefined)
      return on === undefined ? database.run(knex => pageStatement(query, knex)) : pageStatement(query, on)
    const read = async (trx: Knex) => pageStatement(query, trx, await prepare(trx))
    return on === undefined ? database.snapshot(read) : read(on)
  }

  return {
    async read(ids, trx) {
      return (await database.query(selectByIds, [ids], trx)).map(readRow)
    },

    async page(query, on) {
      const found = await find(query, on)
      // A page past the end is one row that contains only the total. It is NULL if its subquery was interrupted.
      const total = found[0]?.total
      if (total == null) throw unavailable(new TypeError('the database returned a page without a total'))
      return { total: Number(total), rows: found.filter(row => row.id !== null).map(readRow) }
    },
  }
}
