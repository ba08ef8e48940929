// ETags (RFC 9110, 8.8.3), all of them strong, written here without their quotes. A record's says its version, and after
// a dot the generation of what it includes: so an ETag that was read with or without `include` names the same version.
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Precondition } from '../../database/version.ts'
import type { Row } from '../../model/row.ts'
import { writeCondition } from '../requests/preconditions.ts'

/** Of a record alone. */
export const recordEtag = ({ version }: Row): string => String(version)

/** Of a record with all that it includes, and of those alone. */
export const completeEtag = ({ version, generation }: Row): string => `${version}.${generation}`

/** Of a page: of how many records it shows which, in which versions. @param complete with all that they include */
export const pageEtag = (total: number, rows: readonly Row[], complete: boolean): string =>
  textEtag([total, ...rows.map(complete ? completeEtag : recordEtag)].join(' '))

/** Of what has no version. */
export const textEtag = (text: string): string => hash('sha256', text, 'base64url')

/**
 * What a request demands of the version of the record that it changes; undefined where it demands nothing.
 * @throws ApiError `malformed_request`
 */
export function preconditionOf(headers: IncomingHttpHeaders): Precondition | undefined {
  const condition = writeCondition(headers)
  return condition && (version => condition(opaque => opaque.split('.', 1)[0] === String(version)))
}
