// Parses the query parameters of a request. All faults are reported at once, each with the allowed values.
import type { Config } from '../../config/config.ts'
import { type Fault, Faults } from '../../core/api-error.ts'
import { quoted, shortened } from '../../core/quoted.ts'
import type { Filter, Selection, SortKey } from '../../database/reading/page-query.ts'
import { columnsOf, limitedRelations, MAX_ID, type Resource } from '../../model/resource.ts'
import { type FilterTarget, filtersOf, parseComparison } from './filters.ts'
import { type Pair, parseQueryString } from './query-string.ts'

const DEFAULT_RECORDS_PER_PAGE = 100

/** The page size of a request that does not set `records_per_page`. */
export const unpagedRecords = (limits: QueryLimits): number =>
  Math.min(DEFAULT_RECORDS_PER_PAGE, limits.recordsPerPage)

export interface Paging {
  readonly startIndex: number
  readonly recordsPerPage: number
  /** The other parameters as sent, each followed by `&`, for the links to other pages. */
  readonly others: string
}

export interface ListQuery extends Paging, Selection {
  readonly sort: readonly SortKey[]
  /** The names of relations, in the order of the definition. */
  readonly include: readonly string[]
}

type QueryLimits = Pick<Config['limits'], 'filters' | 'recordsPerPage'>

/** Maximum number of words of a search. Each further word doubles the conditions of its SQL. */
export const MAX_SEARCH_WORDS = 5

const pagingNames = ['start_index', 'records_per_page']

/** The parameters of one request, and their faults. */
export class Parameters {
  readonly pairs: readonly Pair[]
  readonly faults = new Faults()
  private readonly values = new Map<string, string>()

  /** @param once the names of the parameters that must not be repeated, in addition to `repeatable` */
  constructor(search: string, repeatable: readonly string[], once: readonly string[] = []) {
    this.pairs = parseQueryString(search)
    for (const { name, value } of this.pairs) {
      if (repeatable.includes(name)) continue
      if (!once.includes(name)) this.unknown(name, [...repeatable, ...once])
      else if (this.values.has(name)) this.fault(name, 'must not be repeated')
      else this.values.set(name, value)
    }
  }

  private unknown(parameter: string, allowed: readonly string[]): void {
    const hint = allowed.length === 0 ? 'no parameters are allowed here' : `allowed: ${allowed.join(', ')}`
    const message = `unknown parameter ${quoted(parameter)}: ${hint}`
    this.faults.add(() => ({ parameter: shortened(parameter), code: 'unknown_parameter', message }))
  }

  fault(parameter: string, message: string, code: Fault['code'] = 'invalid_parameter'): void {
    this.faults.add(() => ({ parameter, code, message: `${parameter}: ${message}` }))
  }

  /** Returns the value of a parameter that must not be repeated. */
  get(name: string): string | undefined {
    return this.values.get(name)
  }

  /**
   * Parses an integer from `min` to `max`. Above a maximum that is not MAX_ID, the code is `limit_exceeded`.
   * @param word what the caller accepts instead of an integer, for the message
   */
  integer(name: string, min: number, max: number, defaultValue: number, word?: string): number {
    const value = this.values.get(name)
    if (value === undefined) return defaultValue
    const number = /^(0|[1-9][0-9]*)$/.test(value) ? Number(value) : Number.NaN
    if (number >= min && number <= max) return number
    const code = number > max && max < MAX_ID ? 'limit_exceeded' : 'invalid_parameter'
    const is = word === undefined ? 'is not' : `is neither ${quoted(word)} nor`
    this.fault(name, `${quoted(value)} ${is} an integer from ${min} to ${max}`, code)
    return min
  }

  paging(defaultSize: number, maxSize: number): Paging {
    return {
      startIndex: this.integer('start_index', 0, MAX_ID, 0),
      recordsPerPage: this.integer('records_per_page', 1, maxSize, defaultSize),
      others: this.others(pagingNames),
    }
  }

  /** Returns the parameters as sent, each followed by `&`, except for those with these names. */
  others(except: readonly string[]): string {
    return this.pairs.map(({ name, encoded }) => (except.includes(name) ? '' : `${encoded}&`)).join('')
  }

  sort(resource: Resource): SortKey[] {
    const columns = columnsOf(resource)
    const keys: SortKey[] = []
    for (const part of this.get('sort')?.split(',') ?? []) {
      const descending = part.startsWith('-')
      const column = descending ? part.slice(1) : part
      if (!columns.includes(column)) {
        const allowed = `allowed: ${columns.join(', ')}, each with - for descending`
        this.fault('sort', `${quoted(part)} is unknown; ${allowed}`)
      } else if (keys.some(key => key.column === column)) this.fault('sort', `${column} must not be repeated`)
      else keys.push({ column, descending })
    }
    return keys
  }

  /** Parses `search=ada lov` into its words. */
  search(): string[] {
    const words = (this.values.get('search') ?? '').split(/\p{White_Space}+/u).filter(word => word !== '')
    if (words.length > MAX_SEARCH_WORDS)
      this.fault('search', `at most ${MAX_SEARCH_WORDS} words are allowed`, 'limit_exceeded')
    return words
  }

  /** Parses `include=groups`. An empty value includes nothing. */
  include(resource: Resource): string[] {
    const value = this.get('include') ?? ''
    if (value === '') return []
    const offered = limitedRelations(resource).map(({ name }) => name)
    const names = value.split(',')
    for (const name of names.filter(name => !offered.includes(name))) {
      const hint = offered.length === 0 ? 'nothing can be included' : `allowed: ${offered.join(', ')}`
      this.fault('include', `${quoted(name)} is unknown: ${hint}`)
    }
    if (new Set(names).size < names.length) this.fault('include', 'a name must not be repeated')
    return offered.filter(name => names.includes(name))
  }

  filters(targets: ReadonlyMap<string, FilterTarget>, max: number): Filter[] {
    const filters: Filter[] = []
    /** By parameter. A repeated list is one list: many clients repeat the parameter for each element of an array. */
    const lists = new Map<string, (string | number)[]>()
    for (const { name, value } of this.pairs) {
      const target = targets.get(name)
      if (target === undefined) continue
      let comparison = parseComparison(target, value)
      if (typeof comparison === 'string') {
        this.fault(name, comparison)
        continue
      }
      if (comparison.operator === 'in') {
        const list = lists.get(name) ?? []
        list.push(...comparison.value)
        if (lists.has(name)) continue
        lists.set(name, list)
        comparison = { operator: 'in', value: list }
      }
      filters.push({ relation: target.relation, column: target.column, comparison })
      if (filters.length === max + 1) this.fault(name, `at most ${max} filters are allowed`, 'limit_exceeded')
    }
    return filters
  }
}

/** Returns a function that parses the parameters of a collection. It throws an ApiError with all faults. */
export function createListParser(resource: Resource, limits: QueryLimits) {
  const targets = filtersOf(resource)
  const repeatable = [...targets.keys()]
  const once = ['sort', 'include', 'search', ...pagingNames]
  return (search: string): ListQuery => {
    const parameters = new Parameters(search, repeatable, once)
    const query = {
      ...parameters.paging(unpagedRecords(limits), limits.recordsPerPage),
      filters: parameters.filters(targets, limits.filters),
      search: parameters.search(),
      sort: parameters.sort(resource),
      include: parameters.include(resource),
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
  search: string,
  maxPerRecord: number,
  limits: QueryLimits,
): (count: number) => Paging {
  const parameters = new Parameters(search, [], pagingNames)
  const paging = parameters.paging(maxPerRecord, maxRelatedRecords(maxPerRecord, limits))
  parameters.faults.throw()
  const isPaged = parameters.pairs.length > 0
  return count => (isPaged ? paging : { ...paging, recordsPerPage: Math.max(maxPerRecord, count) })
}

/** Parses the parameters of a single record: only `include`. @throws ApiError with all faults */
export function parseRecordQuery(resource: Resource, search: string): Pick<ListQuery, 'include'> {
  if (search === '') return { include: [] }
  const parameters = new Parameters(search, [], ['include'])
  const include = parameters.include(resource)
  parameters.faults.throw()
  return { include }
}

/** Rejects all parameters except `allowed`, whose values are ignored. @throws ApiError with all faults */
export function rejectUnknownParameters(search: string, allowed: readonly string[]): void {
  if (search !== '') new Parameters(search, allowed).faults.throw()
}

/** Rejects all parameters. @throws ApiError with all faults */
export const parseNoQuery = (search: string): void => rejectUnknownParameters(search, [])
