// fast-check generators for the fuzzer: well-formed requests, valid or not, and the bytes of requests with random
// mutations.
import fc from 'fast-check'

const tokens = [
  '__proto__',
  'constructor',
  'first_name',
  'last_name',
  'groups',
  'groups[*].name',
  'groups[*].id',
  'id[in]',
  'id[gt]',
  'first_name[prefix]',
  'last_name[exists]',
  'include',
  'sort',
  'start_index',
  'records_per_page',
  'name',
  'users',
  'id',
  'meta',
  '-1',
  '0',
  '9007199254740993',
  '1e999',
  'null',
  'true',
  '%00',
  '%FF',
  '%2F',
  '!',
  '\\!',
  ',',
  '*',
  "'",
  '"',
  ';--',
  '../',
]
const token = fc.oneof(fc.constantFrom(...tokens), fc.string({ maxLength: 12 }), fc.nat().map(String))
const visible = fc.string({
  unit: fc.integer({ min: 0x21, max: 0x7e }).map(code => String.fromCharCode(code)),
})

const operations = [
  ['GET', '/v1/users'],
  ['POST', '/v1/users'],
  ['GET', '/v1/users/1'],
  ['PUT', '/v1/users/1'],
  ['PATCH', '/v1/users/2'],
  ['DELETE', '/v1/users/3'],
  ['GET', '/v1/users/1/groups'],
  ['POST', '/v1/users/1/groups'],
  ['DELETE', '/v1/users/1/groups/1'],
  ['GET', '/v1/groups'],
  ['POST', '/v1/groups'],
  ['PATCH', '/v1/groups/1'],
  ['DELETE', '/v1/groups/2'],
] as const
const anyMethod = fc.constantFrom(
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'TRACE',
  'PROPFIND',
)
const anyPath = fc.array(token, { maxLength: 4 }).map(parts => `/v1/${parts.join('/')}`)
const target = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...operations) },
  { weight: 1, arbitrary: fc.tuple(anyMethod, fc.constantFrom(...operations.map(([, path]) => path))) },
  { weight: 1, arbitrary: fc.tuple(anyMethod, anyPath) },
)

const query = fc.oneof(
  fc.constant(''),
  fc
    .array(fc.tuple(token, token), { maxLength: 4 })
    .map(pairs => `?${pairs.map(([name, value]) => `${name}=${value}`).join('&')}`),
)

const value = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  token,
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.double(),
)
const field = fc.oneof(
  fc.constantFrom('first_name', 'last_name', 'name', 'id', 'users', 'groups', 'meta'),
  token,
)
const object = fc
  .array(fc.tuple(field, value), { maxLength: 4 })
  // Not JSON.stringify of an object: the text may contain duplicate keys and `__proto__` as a key.
  .map(pairs => `{${pairs.map(([key, one]) => `${JSON.stringify(key)}:${JSON.stringify(one)}`).join()}}`)
const body = fc.oneof(
  object,
  fc.array(object, { maxLength: 3 }).map(entries => `{"users":[${entries.join()}]}`),
  fc.array(object, { maxLength: 3 }).map(entries => `{"groups":[${entries.join()}]}`),
  fc.json(),
  fc.nat(5000).map(depth => '['.repeat(depth)),
  fc.constantFrom('1e999', '{"id":1e308}', '{"first_name":"\\ud800"}', ''),
  fc.string({ unit: 'binary' }),
)

const headers = fc.dictionary(
  fc.constantFrom(
    'content-type',
    'content-encoding',
    'accept',
    'if-match',
    'if-none-match',
    'idempotency-key',
    'request-id',
    'traceparent',
    'x-forwarded-for',
    'range',
  ),
  fc.oneof(
    visible,
    fc.constantFrom(
      'application/json',
      'application/json; charset=utf-16',
      'gzip',
      '*/*',
      'text/html',
      '*',
      '"a"',
    ),
  ),
  { maxKeys: 3 },
)

export const request = fc.tuple(target, query, headers, body).map(([[method, path], tail, sent, text]) => ({
  method,
  // Only characters that a client cannot send are encoded; existing percent-encoding stays unchanged.
  path: (path + tail).replaceAll(/[^\x21-\x7e]/g, encodeURIComponent),
  headers: sent,
  body: text,
}))
type Request = typeof request extends fc.Arbitrary<infer T> ? T : never

export const hasBody = ({ method }: Request) => ['POST', 'PUT', 'PATCH', 'DELETE'].includes(method)

/** The bytes of a request in which some bytes are removed, inserted or replaced. */
export const mutant = fc
  .tuple(
    request,
    fc.array(
      fc.record({
        at: fc.nat(),
        remove: fc.nat(3),
        insert: fc.oneof(
          token,
          fc.constantFrom(
            '\r\n',
            '\n',
            '\0',
            ' ',
            ':',
            '\r\n ',
            'Content-Length: 3\r\n',
            'Transfer-Encoding: chunked\r\n',
          ),
        ),
      }),
      { minLength: 1, maxLength: 4 },
    ),
  )
  .map(([one, changes]) => {
    const text = hasBody(one) ? one.body : ''
    const head = `${one.method} ${one.path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`
    let bytes = `${head}Connection: close\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
    for (const { at, remove, insert } of changes) {
      const place = at % bytes.length
      bytes = bytes.slice(0, place) + insert + bytes.slice(place + remove)
    }
    return bytes
  })
