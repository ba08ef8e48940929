// ETags (RFC 9110, 8.8.3), all of them strong, written here without their quotes. A record's says its version, and after
// a dot the generation of what it includes: so an ETag that was read with or without `include` names the same version.
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { writeCondition } from '../http/conditions.ts'
import type { Precondition } from '../store/version.ts'
import type { Row } from './definition.ts'

const versionTag = (version: number) => version.toString(36)

/** Of a record alone. */
export const recordEtag = ({ version }: Row): string => versionTag(version)

/** Of a record with all that it includes, and of those alone. */
export const completeEtag = (row: Row): string =>
  `${versionTag(row.version)}.${Number(row.generation).toString(36)}`

/** Of what has no version: a page. */
export const textEtag = (text: string): string => hash('sha256', text, 'base64url')

/**
 * What a request demands of the version of the record that it changes; undefined where it demands nothing.
 * @throws ApiError `malformed_request`
 */
export function preconditionOf(headers: IncomingHttpHeaders): Precondition | undefined {
  const condition = writeCondition(headers)
  return condition && (version => condition(opaque => opaque.split('.', 1)[0] === versionTag(version)))
}
