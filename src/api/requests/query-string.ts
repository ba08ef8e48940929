// Parses query strings in the encoding of HTML forms: `+` and `%20` are spaces, and escapes are UTF-8 bytes.
// It follows https://url.spec.whatwg.org/#urlencoded-parsing, but rejects bytes that the standard would replace.
import { isUtf8 } from 'node:buffer'
import type { Faults } from '../../core/api-error.ts'
import { quoted, shortened } from '../../core/quoted.ts'

export interface Pair {
  readonly name: string
  readonly value: string
  /** The pair as sent. */
  readonly raw: string
}

/** Clients may send them as they are, such as the brackets of `id[in]`, but a URI cannot contain them (RFC 3986, 3.4). */
const notInUri = /[^\w!$%&'()*+,\-./:;=?@~]/gu

/** Returns a part of a query string as it is in a URI. */
export const inUri = (raw: string): string => raw.replaceAll(notInUri, encodeURIComponent)

const byteOf = (_: string, digits: string): string => String.fromCharCode(Number.parseInt(digits, 16))

/**
 * Decodes ASCII text: the parser of Node.js refuses a target with bytes above 127. Returns undefined if it is not percent-encoded
 * UTF-8. With `decodeURIComponent`, thousands of faults in one query would take tens of milliseconds, because it throws an error.
 */
function decode(text: string): string | undefined {
  if (!/[%+]/.test(text)) return text
  if (/%(?![\dA-Fa-f]{2})/.test(text)) return undefined
  const bytes = Buffer.from(text.replaceAll('+', ' ').replaceAll(/%(..)/g, byteOf), 'latin1')
  return isUtf8(bytes) ? bytes.toString() : undefined
}

/**
 * Returns the pairs of a query string, except for those whose name or value is not percent-encoded UTF-8.
 * @param faults get one fault for each of these
 */
export function parseQueryString(query: string, faults: Faults): Pair[] {
  const pairs: Pair[] = []
  for (const raw of query.split('&')) {
    if (raw === '') continue
    const equals = raw.indexOf('=')
    const [name, value] = (equals === -1 ? [raw, ''] : [raw.slice(0, equals), raw.slice(equals + 1)]).map(
      decode,
    )
    if (name !== undefined && value !== undefined) pairs.push({ name, value, raw })
    else
      faults.add(() => ({
        parameter: shortened(raw),
        code: 'invalid_parameter',
        message: `${quoted(raw)} is not percent-encoded UTF-8`,
      }))
  }
  return pairs
}
