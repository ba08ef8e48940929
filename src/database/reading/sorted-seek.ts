// The preparatory query for a page that is sorted by fields: it finds the first and the last record of the page.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { readField } from '../../model/row.ts'
import type { Columns } from '../results.ts'
import type { Statements } from '../transaction.ts'
import type { PageQuery, PageSeek, SortKey } from './page-query.ts'

/** The values of some sort keys in one record, by their columns. */
type KeyValues = readonly (readonly [column: string, value: string | null])[]

/**
 * Restricts a query to the records that sort before those with these values. In ascending order, NULL sorts before all values.
 * @param descending the order. In the opposite one, the records after them are those before them
 * @param isInclusive whether those with these values are also among them
 */
function whereBefore(
  builder: Knex.QueryBuilder,
  [first, ...others]: KeyValues,
  descending: boolean,
  isInclusive: boolean,
): void {
  if (first === undefined) {
    if (!isInclusive) builder.whereRaw('FALSE')
    return
  }
  const [column, value] = first
  builder.where(either => {
    if (!descending && value !== null) either.whereNull(column)
    if (descending && value === null) either.whereNotNull(column)
    if (value !== null) either.orWhere(column, descending ? '>' : '<', value)
    either.orWhere(equal => {
      equal.where(column, value)
      whereBefore(equal, others, descending, isInclusive)
    })
  })
}

/**
 * Returns the first sort keys whose order an index has, in one direction: those of the unique index, or the first one. A
 * unique index with NULLs is not ordered by id after them.
 */
function indexedKeys({ unique }: Resource, sort: readonly SortKey[]): readonly SortKey[] {
  const isIndexed = unique.every(
    (column, at) => sort[at]?.column === column && sort[at].descending === sort[0]?.descending,
  )
  return sort.slice(0, isIndexed ? unique.length : 1)
}

/**
 * Restricts a page to the records from its first to its last one, by the first sort keys, so that only these are sorted. No index
 * provides the whole order.
 */
export async function seekSorted(resource: Resource, query: PageQuery, on: Statements): Promise<PageSeek> {
  const { plural: table } = resource
  const { sort, startIndex, recordsPerPage } = query
  const columns = indexedKeys(resource, sort).map(({ column }) => column)
  const descending = sort[0]?.descending === true
  const valuesOf = (row: Columns): KeyValues =>
    columns.map(column => [`${table}.${column}`, readField(resource, column, row)])

  const page = await on.select(knex => {
    const ordered = knex(table).offset(startIndex).limit(recordsPerPage).select(columns)
    for (const column of columns) ordered.orderBy(column, descending ? 'desc' : 'asc')
    return ordered
  })
  const [first] = page
  const last = page.at(-1)
  if (first === undefined || last === undefined) return { narrow: shown => shown.whereRaw('FALSE') }
  const countEarlier = (knex: Knex) => {
    const counted = knex(table).count({ count: '*' })
    whereBefore(counted, valuesOf(first), descending, false)
    return counted
  }
  const [earlier] = startIndex === 0 ? [] : await on.select(countEarlier)
  return {
    narrow(shown) {
      whereBefore(shown, valuesOf(first), !descending, true)
      whereBefore(shown, valuesOf(last), descending, true)
    },
    skip: startIndex - Number(earlier?.count ?? 0),
  }
}
