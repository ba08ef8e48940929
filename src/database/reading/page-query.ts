// The parameters of a request for a page of a collection, and the restrictions that a preparatory query finds for it.
import type { Knex } from 'knex'
import type { Relation } from '../../model/resource.ts'

export type Comparison =
  | { readonly operator: 'equals' | 'differs' | 'above' | 'below'; readonly value: string | number }
  | { readonly operator: 'prefix'; readonly value: string }
  | { readonly operator: 'in'; readonly value: readonly (string | number)[] }
  | { readonly operator: 'exists'; readonly value: boolean }

/** A condition on a field of the record, or, with `relation`, on a field of at least one related record. */
export interface Filter {
  readonly relation: Relation | undefined
  readonly column: string
  readonly comparison: Comparison
}

export interface SortKey {
  readonly column: string
  readonly descending: boolean
}

/** Which records a query selects: those that match all filters and the search. */
export interface Selection {
  readonly filters: readonly Filter[]
  /** The words of a search; none without one. */
  readonly search: readonly string[]
}

export interface PageQuery extends Selection {
  readonly sort: readonly SortKey[]
  readonly startIndex: number
  readonly recordsPerPage: number
}

/** The restrictions that make the page query faster. */
export interface PageSeek {
  /** Excludes records before or after the page. */
  readonly narrow?: (shown: Knex.QueryBuilder) => void
  /** The OFFSET of the narrowed query, if it differs from the page's start index. */
  readonly skip?: number
  /** The total of the collection, if it is known. */
  readonly total?: number | undefined
}
