// Queries of pages, for tests that read records without a service.
import type { Filter, PageQuery } from '../../src/database/reading/page-query.ts'
import { relation } from './relation.ts'

export const allRecords: PageQuery = {
  filters: [],
  search: [],
  sort: [],
  startIndex: 0,
  recordsPerPage: 1000,
}

/** Selects the users in one group. */
export const membersOf = (group: number): Filter => ({
  relation,
  column: 'id',
  comparison: { operator: 'equals', value: group },
})
