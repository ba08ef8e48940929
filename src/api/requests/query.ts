// Parses the query parameters of a request. All faults are reported at once, each with the allowed values.
import { ApiError, type Fault, throwFaults } from '../../core/api-error.ts'
import type { Filter, SortKey } from '../../database/reading/page-query.ts'
import { columnsOf, limitedRelations, MAX_ID, type Resource } from '../../model/resource.ts'
import { filterNames, parseFilter } from './filters.ts'
import { type Pair, parseQueryString, QueryStringError } from './query-string.ts'

const DEFAULT_RECORDS_PER_PAGE = 100

/** The page size of a request that does not set `records_per_page`. */
export const unpagedRecords = (limits: QueryLimits): number =>
  Math.min(DEFAULT_RECORDS_PER_PAGE, limits.recordsPerPage)

export interface Paging {
  readonly startIndex: number
  readonly recordsPerPage: number
  /** The other parameters as sent, for the links to other pages. */
  readonly others: string
}

export interface ListQuery extends Paging {
  readonly filters: readonly Filter[]
  readonly sort: readonly SortKey[]
  /** The names of relations, in the order of the definition. */
  readonly include: readonly string[]
}

export interface QueryLimits {
  readonly filters: number
  readonly recordsPerPage: number
}

const pagingNames = ['start_index', 'records_per_page']

function pairsOf(search: string): Pair[] {
  try {
    return parseQueryString(search)
  } catch (error) {
    if (!(error instanceof QueryStringError)) throw error
    throw ApiError.of([{ parameter: error.raw, code: 'invalid_parameter', message: error.message }])
  }
}

/** Collects the faults of the parameters of one request. */
class FaultCollector {
  readonly faults: Fault[] = []
  private readonly seen = new Set<string>()
  private readonly allowed: readonly string[]

  constructor(allowed: readonly string[]) {
    this.allowed = allowed
  }

  fault(parameter: string, code: Fault['code'], message: string): void {
    this.faults.push({ parameter, code, message })
  }

  unknown(name: string): void {
    const allowed =
      this.allowed.length === 0 ? 'no parameters are allowed here' : `allowed: ${this.allowed.join(', ')}`
    this.fault(name, 'unknown_parameter', `unknown parameter ${JSON.stringify(name)}: ${allowed}`)
  }

  /** Returns whether `name` occurs for the first time. A repetition is a fault. */
  isFirst(name: string): boolean {
    if (!this.seen.has(name)) {
      this.seen.add(name)
      return true
    }
    this.fault(name, 'invalid_parameter', `${name}: must not be repeated`)
    return false
  }

  /** Parses an integer from `min` to `max`. Above a configured maximum, which is any below MAX_ID, the code is `limit_exceeded`. */
  integer({ name, value }: Pair, min: number, max: number): number {
    const number = /^(0|[1-9][0-9]*)$/.test(value) ? Number(value) : Number.NaN
    if (number >= min && number <= max) return number
    const over = number > max && max < MAX_ID
    this.fault(
      name,
      over ? 'limit_exceeded' : 'invalid_parameter',
      `${name}: ${JSON.stringify(value)} is not an integer from ${min} to ${max}`,
    )
    return min
  }
}

function parseSort(collector: FaultCollector, resource: Resource, { value }: Pair): SortKey[] {
  const columns = columnsOf(resource)
  const keys: SortKey[] = []
  for (const part of value.split(',')) {
    const descending = part.startsWith('-')
    const column = descending ? part.slice(1) : part
    if (!columns.includes(column))
      collector.fault(
        'sort',
        'invalid_parameter',
        `sort: ${JSON.stringify(part)} is unknown; allowed: ${columns.join(', ')}, each with - for descending`,
      )
    else if (keys.some(key => key.column === column))
      collector.fault('sort', 'invalid_parameter', `sort: ${column} must not be repeated`)
    else keys.push({ column, descending })
  }
  return keys
}

/** Parses `include=groups`. An empty value includes nothing. */
function parseInclude(collector: FaultCollector, resource: Resource, { value }: Pair): string[] {
  if (value === '') return []
  const offered = limitedRelations(resource).map(({ name }) => name)
  const names = value.split(',')
  for (const name of names)
    if (!offered.includes(name))
      collector.fault(
        'include',
        'invalid_parameter',
        `include: ${JSON.stringify(name)} is unknown: ${offered.length === 0 ? 'nothing can be included' : `allowed: ${offered.join(', ')}`}`,
      )
  if (new Set(names).size < names.length)
    collector.fault('include', 'invalid_parameter', 'include: a name must not be repeated')
  return offered.filter(name => names.includes(name))
}

function parsePaging(
  collector: FaultCollector,
  pairs: readonly Pair[],
  defaultSize: number,
  maxSize: number,
): Paging {
  let startIndex = 0
  let recordsPerPage = defaultSize
  for (const pair of pairs) {
    if (pair.name === 'start_index' && collector.isFirst(pair.name))
      startIndex = collector.integer(pair, 0, MAX_ID)
    if (pair.name === 'records_per_page' && collector.isFirst(pair.name))
      recordsPerPage = collector.integer(pair, 1, maxSize)
  }
  const others = pairs.filter(({ name }) => !pagingNames.includes(name)).map(({ raw }) => raw)
  return { startIndex, recordsPerPage, others: others.join('&') }
}

/** Parses the parameters of a collection. @throws ApiError with all faults */
export function parseListQuery(resource: Resource, search: string, limits: QueryLimits): ListQuery {
  const pairs = pairsOf(search)
  const collector = new FaultCollector([...filterNames(resource), 'sort', 'include', ...pagingNames])
  const filters: Filter[] = []
  let excess: string | undefined
  let sort: SortKey[] = []
  let include: string[] = []
  for (const pair of pairs) {
    const { name, value } = pair
    if (pagingNames.includes(name)) continue
    if (name === 'sort') {
      if (collector.isFirst(name)) sort = parseSort(collector, resource, pair)
    } else if (name === 'include') {
      if (collector.isFirst(name)) include = parseInclude(collector, resource, pair)
    } else {
      const filter = parseFilter(resource, name, value)
      if (!('code' in filter)) {
        filters.push(filter)
        if (filters.length === limits.filters + 1) excess = name
      } else if (filter.code === 'unknown_parameter') collector.unknown(name)
      else collector.fault(name, filter.code, filter.message)
    }
  }
  if (excess !== undefined) {
    const message = `${filters.length} filters are given, at most ${limits.filters} are allowed`
    collector.fault(excess, 'limit_exceeded', `${excess}: ${message}`)
  }
  const paging = parsePaging(collector, pairs, unpagedRecords(limits), limits.recordsPerPage)
  throwFaults(collector.faults)
  return { ...paging, filters, sort, include }
}

/**
 * Parses the parameters of a record's related records: only paging.
 * @param defaultSize the page size of a request that does not set one
 * @throws ApiError with all faults
 */
export function parsePagingQuery(search: string, defaultSize: number, limits: QueryLimits): Paging {
  const pairs = pairsOf(search)
  const collector = new FaultCollector(pagingNames)
  for (const { name } of pairs) if (!pagingNames.includes(name)) collector.unknown(name)
  const paging = parsePaging(collector, pairs, defaultSize, limits.recordsPerPage)
  throwFaults(collector.faults)
  return paging
}

/** Parses the parameters of a single record: only `include`. @throws ApiError with all faults */
export function parseRecordQuery(resource: Resource, search: string): Pick<ListQuery, 'include'> {
  if (search === '') return { include: [] }
  const collector = new FaultCollector(['include'])
  let include: string[] = []
  for (const pair of pairsOf(search)) {
    if (pair.name !== 'include') collector.unknown(pair.name)
    else if (collector.isFirst(pair.name)) include = parseInclude(collector, resource, pair)
  }
  throwFaults(collector.faults)
  return { include }
}

/** Rejects all parameters except `allowed`, whose values are ignored. @throws ApiError with all faults */
export function rejectUnknownParameters(search: string, allowed: readonly string[]): void {
  if (search === '') return
  const collector = new FaultCollector(allowed)
  for (const { name } of pairsOf(search)) if (!allowed.includes(name)) collector.unknown(name)
  throwFaults(collector.faults)
}

/** Rejects all parameters. @throws ApiError with all faults */
export const parseNoQuery = (search: string): void => rejectUnknownParameters(search, [])
