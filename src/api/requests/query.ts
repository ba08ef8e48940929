// The parameters of a request, read as a whole: every fault is reported, with what is allowed.
import { ApiError, type Fault, throwFaults } from '../../core/api-error.ts'
import type { Filter, SortKey } from '../../database/reading/page-query.ts'
import { columnsOf, MAX_ID, type Resource } from '../../model/resource.ts'
import { filterNames, parseFilter } from './filters.ts'
import { type Pair, parseQueryString, QueryStringError } from './query-string.ts'

const DEFAULT_RECORDS_PER_PAGE = 100

/** How many records a page has where the request does not say. */
export const unpagedRecords = (limits: QueryLimits): number =>
  Math.min(DEFAULT_RECORDS_PER_PAGE, limits.recordsPerPage)

export interface Paging {
  readonly startIndex: number
  readonly recordsPerPage: number
  /** The other parameters as they were sent, for the links to other pages. */
  readonly others: string
}

export interface ListQuery extends Paging {
  readonly filters: readonly Filter[]
  readonly sort: readonly SortKey[]
  readonly include: boolean
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

/** Collects what the parameters say, and what is wrong with them. */
class Reading {
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
      this.allowed.length === 0 ? 'no parameters are allowed here' : `allowed are ${this.allowed.join(', ')}`
    this.fault(name, 'unknown_parameter', `unknown parameter ${JSON.stringify(name)}: ${allowed}`)
  }

  /** Whether `name` is there for the first time; it is a fault otherwise. */
  once(name: string): boolean {
    if (!this.seen.has(name)) {
      this.seen.add(name)
      return true
    }
    this.fault(name, 'invalid_parameter', `${name}: is given more than once, allowed is once`)
    return false
  }

  /** A whole number from `least` to `most`; over a limit that is ours to set, the code says so. */
  integer({ name, value }: Pair, least: number, most: number): number {
    const number = /^(0|[1-9][0-9]*)$/.test(value) ? Number(value) : Number.NaN
    if (number >= least && number <= most) return number
    const over = number > most && most < MAX_ID
    this.fault(
      name,
      over ? 'limit_exceeded' : 'invalid_parameter',
      `${name}: ${JSON.stringify(value)} is not a whole number from ${least} to ${most}`,
    )
    return least
  }
}

function readSort(reading: Reading, resource: Resource, { value }: Pair): SortKey[] {
  const columns = columnsOf(resource)
  const keys: SortKey[] = []
  for (const part of value.split(',')) {
    const descending = part.startsWith('-')
    const column = descending ? part.slice(1) : part
    if (!columns.includes(column))
      reading.fault(
        'sort',
        'invalid_parameter',
        `sort: ${JSON.stringify(part)} is unknown: allowed are ${columns.join(', ')}, each with - for descending`,
      )
    else if (keys.some(key => key.column === column))
      reading.fault('sort', 'invalid_parameter', `sort: ${column} is named more than once, allowed is once`)
    else keys.push({ column, descending })
  }
  return keys
}

/** Reads `include=groups`; an empty one is none. */
function readInclude(reading: Reading, resource: Resource, { value }: Pair): boolean {
  if (value === '') return false
  const offered = resource.relation === undefined ? [] : [resource.relation.name]
  const names = value.split(',')
  for (const name of names)
    if (!offered.includes(name))
      reading.fault(
        'include',
        'invalid_parameter',
        `include: ${JSON.stringify(name)} is unknown: ${offered.length === 0 ? 'nothing can be included' : `allowed are ${offered.join(', ')}`}`,
      )
  if (new Set(names).size < names.length)
    reading.fault('include', 'invalid_parameter', 'include: a name is given more than once, allowed is once')
  return true
}

function readPaging(reading: Reading, pairs: readonly Pair[], unpaged: number, most: number): Paging {
  let startIndex = 0
  let recordsPerPage = unpaged
  for (const pair of pairs) {
    if (pair.name === 'start_index' && reading.once(pair.name)) startIndex = reading.integer(pair, 0, MAX_ID)
    if (pair.name === 'records_per_page' && reading.once(pair.name))
      recordsPerPage = reading.integer(pair, 1, most)
  }
  const others = pairs.filter(({ name }) => !pagingNames.includes(name)).map(({ raw }) => raw)
  return { startIndex, recordsPerPage, others: others.join('&') }
}

/** The parameters of a collection. @throws ApiError that names every fault */
export function parseListQuery(resource: Resource, search: string, limits: QueryLimits): ListQuery {
  const pairs = pairsOf(search)
  const reading = new Reading([...filterNames(resource), 'sort', 'include', ...pagingNames])
  const filters: Filter[] = []
  let excess: string | undefined
  let sort: SortKey[] = []
  let include = false
  for (const pair of pairs) {
    const { name, value } = pair
    if (pagingNames.includes(name)) continue
    if (name === 'sort') {
      if (reading.once(name)) sort = readSort(reading, resource, pair)
    } else if (name === 'include') {
      if (reading.once(name)) include = readInclude(reading, resource, pair)
    } else {
      const filter = parseFilter(resource, name, value)
      if (!('code' in filter)) {
        filters.push(filter)
        if (filters.length === limits.filters + 1) excess = name
      } else if (filter.code === 'unknown_parameter') reading.unknown(name)
      else reading.fault(name, filter.code, filter.message)
    }
  }
  if (excess !== undefined) {
    const message = `${filters.length} filters are given, at most ${limits.filters} are allowed`
    reading.fault(excess, 'limit_exceeded', `${excess}: ${message}`)
  }
  const paging = readPaging(reading, pairs, unpagedRecords(limits), limits.recordsPerPage)
  throwFaults(reading.faults)
  return { ...paging, filters, sort, include }
}

/** The parameters of a record's related ones: only paging; `unpaged` is how many there can be. */
export function parsePagingQuery(search: string, unpaged: number, limits: QueryLimits): Paging {
  const pairs = pairsOf(search)
  const reading = new Reading(pagingNames)
  for (const { name } of pairs) if (!pagingNames.includes(name)) reading.unknown(name)
  const paging = readPaging(reading, pairs, unpaged, limits.recordsPerPage)
  throwFaults(reading.faults)
  return paging
}

/** The parameters of a single record: only `include`. */
export function parseRecordQuery(resource: Resource, search: string): { include: boolean } {
  if (search === '') return { include: false }
  const reading = new Reading(['include'])
  let include = false
  for (const pair of pairsOf(search)) {
    if (pair.name !== 'include') reading.unknown(pair.name)
    else if (reading.once(pair.name)) include = readInclude(reading, resource, pair)
  }
  throwFaults(reading.faults)
  return { include }
}

/** Where parameters have no meaning. @param allowed may be there nevertheless. @throws ApiError */
export function rejectUnknownParameters(search: string, allowed: readonly string[]): void {
  if (search === '') return
  const reading = new Reading(allowed)
  for (const { name } of pairsOf(search)) if (!allowed.includes(name)) reading.unknown(name)
  throwFaults(reading.faults)
}

/** Where no parameter is known. */
export const parseNoQuery = (search: string): void => rejectUnknownParameters(search, [])
