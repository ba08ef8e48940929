// The `meta` of a page: the total, the position of the page, and the links to its neighbors.
import type { Paging } from './requests/query.ts'

/** @param shown the number of records on this page */
export function pageMeta(path: string, paging: Paging, shown: number, total: number) {
  const { startIndex, recordsPerPage, others } = paging
  const link = (start: number) => `${path}?${others}start_index=${start}&records_per_page=${recordsPerPage}`
  return {
    status: 200,
    message: `${shown} of ${total} records`,
    total_records: total,
    start_index: startIndex,
    records_per_page: recordsPerPage,
    links: {
      ...(startIndex + recordsPerPage < total && { next: link(startIndex + recordsPerPage) }),
      // From a page past the end, it leads to the last records.
      ...(startIndex > 0 && { prev: link(Math.max(0, Math.min(startIndex, total) - recordsPerPage)) }),
    },
  }
}
