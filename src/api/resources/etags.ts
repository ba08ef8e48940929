// Strong ETags (RFC 9110, 8.8.3), here without their quotes. The ETag of a record is its version and, after a dot, its
// representation, so that it changes with the code that writes the record, too. With `include`, the generation of the
// included resource stands between them. If-Match compares only the version, so all forms match it.
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Precondition } from '../../database/version.ts'
import { representationOf } from '../../model/representation.ts'
import type { Resource } from '../../model/resource.ts'
import type { Row } from '../../model/row.ts'
import { writeCondition } from '../requests/preconditions.ts'

/** The ETag of a text that has no version. */
export const textEtag = (text: string): string => hash('sha256', text, 'base64url')

export function createEtags(resource: Resource) {
  const representation = representationOf(resource)
  const record = ({ version }: Row): string => `${version}.${representation}`
  const complete = ({ version, generation }: Row): string => `${version}.${generation}.${representation}`
  return {
    /** The ETag of a record without its related records. */
    record,
    /** The ETag of a record with its related records, and of the list of those. */
    complete,
    /**
     * The ETag of a page: it covers the total, the size of pages, which has a default, and the id and the version of each record,
     * because records that were inserted with SQL can have the same version.
     * @param include whether it has includes
     */
    page(total: number, recordsPerPage: number, rows: readonly Row[], include: boolean): string {
      const tagOf = include ? complete : record
      const tags = rows.map(row => `${row.id} ${tagOf(row)}`)
      return textEtag([representation, total, recordsPerPage, ...tags].join(' '))
    },
  }
}

/**
 * Returns the precondition on the version of the record that a request changes, or undefined if it has none.
 * @throws ApiError `malformed_request`
 */
export function preconditionOf(headers: IncomingHttpHeaders): Precondition | undefined {
  const condition = writeCondition(headers)
  return condition && (version => condition(opaque => opaque.split('.', 1)[0] === String(version)))
}
