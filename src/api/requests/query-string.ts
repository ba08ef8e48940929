// Parses query strings in the encoding of HTML forms: `+` and `%20` are spaces, and escapes are UTF-8 bytes.
// It follows https://url.spec.whatwg.org/#urlencoded-parsing, but rejects bytes that the standard would replace.
import type { Faults } from '../../core/api-error.ts'
import { quoted, shortened } from '../../core/quoted.ts'

export interface Pair {
  readonly name: string
  readonly value: string
  /** The pair as a part of a URI. */
  readonly encoded: string
}

/** Clients may send them as they are, such as the brackets of `id[in]`, but a URI cannot contain them (RFC 3986, 3.4). */
const notInUri = /[^\w!$%&'()*+,\-./:;=?@~]/g

/** Decodes ASCII text: the parser of Node.js refuses a target with bytes above 127. */
function decode(text: string): string {
  if (!/[%+]/.test(text)) return text
  return decodeURIComponent(text.replaceAll('+', ' '))
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
    const [name, value] = equals === -1 ? [raw, ''] : [raw.slice(0, equals), raw.slice(equals + 1)]
    try {
      const encoded = raw.replaceAll(notInUri, encodeURIComponent)
      pairs.push({ name: decode(name), value: decode(value), encoded })
    } catch {
      const message = `${quoted(raw)} is not percent-encoded UTF-8`
      faults.add(() => ({ parameter: shortened(raw), code: 'invalid_parameter', message }))
    }
  }
  return pairs
}
