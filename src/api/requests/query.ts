// The queries of collections and of single records: paging, sort, search and include, and the ids of a DELETE of several records.
// filters.ts adds the filters.
import type { Config } from '../../config/config.ts'
import type { Fault } from '../../core/api-error.ts'
import { quoted } from '../../core/quoted.ts'
import type { PageQuery, SortKey } from '../../database/reading/page-query.ts'
import { columnsOf, MAX_ID, parseId, type Resource } from '../../model/resource.ts'
import { filtersOf, parseFilters } from './filters.ts'
import { notAnId, Parameters } from './parameters.ts'

const DEFAULT_RECORDS_PER_PAGE = 100

/** The page size of a request that does not set `records_per_page`. */
export const defaultRecordsPerPage = (limits: QueryLimits): number =>
  Math.min(DEFAULT_RECORDS_PER_PAGE, limits.recordsPerPage)

export interface Paging {
  readonly startIndex: number
  readonly recordsPerPage: number
  /** The other parameters as they are in a URI, each followed by `&`, for the links to other pages. */
  readonly others: string
}

export interface ListQuery extends Paging, PageQuery {
  /** The names of relations, in the order of the definition. */
  readonly include: readonly string[]
}

type QueryLimits = Pick<Config['limits'], 'filters' | 'recordsPerPage'>

/** Maximum number of words of a search. Each further word doubles the conditions of its SQL. */
export const MAX_SEARCH_WORDS = 5

const pagingNames = ['start_index', 'records_per_page']

function parsePaging(parameters: Parameters, defaultSize: number, maxSize: number): Paging {
  return {
    startIndex: parameters.integer('start_index', 0, MAX_ID, 0),
    recordsPerPage: parameters.integer('records_per_page', 1, maxSize, defaultSize),
    others: parameters.others(pagingNames),
  }
}

function parseSort(parameters: Parameters, resource: Resource): SortKey[] {
  const columns = columnsOf(resource)
  const keys: SortKey[] = []
  for (const part of parameters.get('sort')?.split(',') ?? []) {
    const descending = part.startsWith('-')
    const column = descending ? part.slice(1) : part
    if (!columns.includes(column)) {
      const allowed = `allowed: ${columns.join(', ')}, each with - for descending`
      parameters.fault('sort', `${quoted(part)} is unknown; ${allowed}`)
    } else if (keys.some(key => key.column === column))
      parameters.fault('sort', `${column} must not be repeated`)
    else keys.push({ column, descending })
  }
  return keys
}

/** Parses `search=ada lov` into its words. */
function parseSearch(parameters: Parameters): string[] {
  const search = parameters.get('search')
  if (search === undefined) return []
  const words = search.split(/\p{White_Space}+/u).filter(word => word !== '')
  if (words.length > MAX_SEARCH_WORDS)
    parameters.fault('search', `at most ${MAX_SEARCH_WORDS} words are allowed`, 'limit_exceeded')
  return words
}

/** Parses `include=groups`. An empty value includes nothing. */
function parseInclude(parameters: Parameters, resource: Resource): string[] {
  const value = parameters.get('include') ?? ''
  if (value === '') return []
  const offered = resource.relations.map(({ name }) => name)
  const names = value.split(',')
  for (const name of names.filter(name => !offered.includes(name))) {
    const hint = offered.length === 0 ? 'nothing can be included' : `allowed: ${offered.join(', ')}`
    parameters.fault('include', `${quoted(name)} is unknown; ${hint}`)
  }
  if (new Set(names).size < names.length) parameters.fault('include', 'a name must not be repeated')
  return offered.filter(name => names.includes(name))
}

/** Returns a function that parses the parameters of a collection. It throws an ApiError with all faults. */
export function createListParser(resource: Resource, limits: QueryLimits) {
  const targets = filtersOf(resource)
  const repeatable = [...targets.keys()]
  const once = ['sort', 'include', 'search', ...pagingNames]
  return (queryString: string): ListQuery => {
    const parameters = new Parameters(queryString, repeatable, once)
    const paging = parsePaging(parameters, defaultRecordsPerPage(limits), limits.recordsPerPage)
    const query = {
      filters: parseFilters(parameters, targets, limits.filters),
      search: parseSearch(parameters),
      sort: parseSort(parameters, resource),
      include: parseInclude(parameters, resource),
      ...paging,
    }
    parameters.faults.throw()
    return query
  }
}

/** The maximum number of related records on a page: as many as a record can have, so that one page can show all. */
export const maxRelatedRecords = (maxPerRecord: number, { recordsPerPage }: QueryLimits): number =>
  Math.max(maxPerRecord, recordsPerPage)

/**
 * Parses the parameters of a record's related records: only paging. Without them, the page has all of these records.
 * @param maxPerRecord the number of related records that a record can have
 * @returns the page of a record with `count` related records, which are more than the maximum if that has been lowered
 * @throws ApiError with all faults
 */
export function parsePagingQuery(
  queryString: string,
  maxPerRecord: number,
  limits: QueryLimits,
): (count: number) => Paging {
  const parameters = new Parameters(queryString, [], pagingNames)
  const paging = parsePaging(parameters, maxPerRecord, maxRelatedRecords(maxPerRecord, limits))
  parameters.faults.throw()
  const isPaged = parameters.pairs.length > 0
  return count => (isPaged ? paging : { ...paging, recordsPerPage: Math.max(maxPerRecord, count) })
}

/** Parses the parameters of a single record: only `include`. @throws ApiError with all faults */
export function parseRecordQuery(resource: Resource, queryString: string): Pick<ListQuery, 'include'> {
  if (queryString === '') return { include: [] }
  const parameters = new Parameters(queryString, [], ['include'])
  const include = parseInclude(parameters, resource)
  parameters.faults.throw()
  return { include }
}

const idNames = ['id', 'id[in]']

/** Whether a fault is about `id` or `id[in]` with a value that is not UTF-8: its parameter is the pair as sent. */
const isUndecodedList = (fault: Fault): boolean =>
  'parameter' in fault && /^id(\[in\]|%5[Bb]in%5[Dd])?=/.test(fault.parameter)

/**
 * Parses `id=1`, or `id[in]=1,2&id[in]=3`, which is one list, in its order. At least one id is required, and no other parameter is
 * allowed. `id` must be alone: a GET with `id=1&id[in]=1,2` selects the one record that matches both.
 * @param max maximum number of ids
 * @throws ApiError with all faults
 */
export function parseIdsQuery(queryString: string, max: number): number[] {
  const parameters = new Parameters(queryString, idNames)
  const ids: number[] = []
  const lists = parameters.pairs.filter(({ name }) => idNames.includes(name))
  for (const { name, value } of lists)
    for (const part of name === 'id' ? [value] : value.split(',')) {
      const id = parseId(part)
      if (id === undefined) parameters.fault(name, notAnId(part))
      else ids.push(id)
    }
  const isGiven = lists.length > 0 || parameters.faults.listed.some(isUndecodedList)
  if (!isGiven) parameters.fault('id[in]', 'is required: the ids to delete, separated by commas')
  if (lists.length > 1 && lists.some(({ name }) => name === 'id'))
    parameters.fault('id', 'must be the only parameter; use id[in] for several ids')
  if (ids.length > max)
    parameters.fault('id[in]', `has ${ids.length} ids; at most ${max} are allowed`, 'limit_exceeded')
  parameters.faults.throw()
  return ids
}
