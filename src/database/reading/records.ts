// Reads records with SQL that is generated from the definition of their resource.
import type { Knex } from 'knex'
import { unavailable } from '../../core/api-error.ts'
import type { Resource } from '../../model/resource.ts'
import { type Row, readRow } from '../../model/row.ts'
import type { Database } from '../database.ts'
import type { Columns } from '../results.ts'
import type { Statements } from '../transaction.ts'
import { generationColumns } from '../version.ts'
import type { PageQuery, PageSeek } from './page-query.ts'
import { seekFor } from './page-seek.ts'
import { applySort } from './predicates.ts'
import { canBeRemembered, createRememberedTotals, positionSql } from './remembered-totals.ts'
import { idsMatching } from './selected.ts'
import { totalSql } from './totals.ts'

export interface Page {
  readonly rows: readonly Row[]
  /** The number of records on all pages, in the same snapshot as the page. */
  readonly total: number
}

export type Records = ReturnType<typeof createRecords>

/** @param rememberMs see `createRememberedTotals` */
export function createRecords(database: Database, resource: Resource, rememberMs?: number) {
  const { plural: table } = resource
  const { knex } = database
  const fields = Object.keys(resource.fields)

  /** The columns of a row and the generation of its related resources, for one statement. */
  const columns = [
    ...['id', 'version', ...fields].map(field => `${table}.${field}`),
    ...generationColumns(knex, resource),
  ]

  const selectByIds = knex(table).select(columns).whereIn('id', [0]).toSQL().sql
  const withTotal = createRememberedTotals(database.recordsEvents, rememberMs)

  function pageStatement(query: PageQuery, { narrow, skip, total }: PageSeek): Knex.QueryBuilder {
    const shown = idsMatching(knex, resource, query, query.sort)
      .limit(query.recordsPerPage)
      .offset(skip ?? query.startIndex)
    narrow?.(shown)
    // One statement reads one snapshot, so the total belongs to the page. The inner query skips and selects
    // ids in an index; complete rows are read only for these ids.
    const page = knex
      .select('counted.total', ...columns)
      .from(knex.select(knex.raw('? AS total', [total ?? totalSql(knex, resource, query)])).as('counted'))
      .leftJoin(shown.as('shown'), knex.raw('TRUE'))
      .leftJoin(table, `${table}.id`, 'shown.id')
    if (canBeRemembered(query)) page.select({ position: knex.raw(positionSql) })
    applySort(page, table, query.sort)
    return page
  }

  async function find(query: PageQuery, on: Statements | undefined): Promise<Columns[]> {
    const prepare = seekFor(resource, query)
    if (prepare === undefined)
      return withTotal(query, total => (on ?? database).select(() => pageStatement(query, { total })))
    const read = async (within: Statements) => {
      const seek = await prepare(within)
      return within.select(() => pageStatement(query, seek))
    }
    return on === undefined ? database.snapshot(read) : read(on)
  }

  return {
    /** Returns the existing records, in no particular order. @param on the transaction to read in */
    async read(ids: readonly number[], on: Statements = database): Promise<Row[]> {
      return (await on.query(selectByIds, [ids])).map(readRow)
    },

    /** @param on the transaction to read in; by default, the page has its own snapshot */
    async page(query: PageQuery, on?: Statements): Promise<Page> {
      const found = await find(query, on)
      // A page past the end is one row that contains only the total. It is NULL if its subquery was interrupted.
      const total = found[0]?.total
      if (total == null) throw unavailable(new TypeError('the database returned a page without a total'))
      return { total: Number(total), rows: found.filter(row => row.id !== null).map(readRow) }
    },
  }
}
