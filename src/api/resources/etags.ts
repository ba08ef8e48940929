// Strong ETags (RFC 9110, 8.8.3), here without their quotes. The ETag of a record is its version. With `include`, the
// generation of the included resource follows after a dot. If-Match compares only the version, so both forms match it.
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Precondition } from '../../database/version.ts'
import type { Row } from '../../model/row.ts'
import { writeCondition } from '../requests/preconditions.ts'

/** The ETag of a record without its related records. */
export const recordEtag = ({ version }: Row): string => String(version)

/** The ETag of a record with its related records, and of the list of its related records. */
export const completeEtag = ({ version, generation }: Row): string => `${version}.${generation}`

/** The ETag of a page: it covers the total and the version of each record. @param complete whether the page has includes */
export const pageEtag = (total: number, rows: readonly Row[], complete: boolean): string =>
  textEtag([total, ...rows.map(complete ? completeEtag : recordEtag)].join(' '))

/** The ETag of a text that has no version. */
export const textEtag = (text: string): string => hash('sha256', text, 'base64url')

/**
 * Returns the precondition on the version of the record that a request changes, or undefined if it has none.
 * @throws ApiError `malformed_request`
 */
export function preconditionOf(headers: IncomingHttpHeaders): Precondition | undefined {
  const condition = writeCondition(headers)
  return condition && (version => condition(opaque => opaque.split('.', 1)[0] === String(version)))
}
