// Request smuggling: requests with an ambiguous end are rejected, and the bytes after them are never
// processed.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectNoSideEffects } from '../support/expect.ts'
import { sendRaw } from '../support/http.ts'

const { service, api, close } = await openApi()
test.after.always(close)

const countUsers = () => api.count('/v1/users')
const json = 'Host: a\r\nContent-Type: application/json\r\n'
const post = `POST /v1/users HTTP/1.1\r\n${json}`
const body = '{"first_name":"Smuggled","last_name":"In"}'
/** A request inside or after the body of another one. The service must not process it. */
const smuggled = `${post}Content-Length: ${body.length}\r\n\r\n${body}`
const chunked = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`

const requests: Record<string, string> = {
  'Content-Length before Transfer-Encoding': `${post}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
  'Transfer-Encoding before Content-Length': `${post}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n${smuggled}`,
  'two different Content-Length headers': `${post}Content-Length: 0\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`,
  'two equal Content-Length headers': `${post}Content-Length: 0\r\nContent-Length: 0\r\n\r\n${smuggled}`,
  'a list in Content-Length': `${post}Content-Length: 0, 0\r\n\r\n${smuggled}`,
  'a sign in Content-Length': `${post}Content-Length: +0\r\n\r\n${smuggled}`,
  'a hexadecimal Content-Length': `${post}Content-Length: 0x0\r\n\r\n${smuggled}`,
  'a space in Content-Length': `${post}Content-Length: 0 0\r\n\r\n${smuggled}`,
  'a Content-Length over 64 bits': `${post}Content-Length: 18446744073709551616\r\n\r\n${smuggled}`,
  'a folded Content-Length': `${post}Content-Length:\r\n 0\r\n\r\n${smuggled}`,
  'a folded header': `${post}X-Folded: a\r\n Content-Length: 0\r\n\r\n${smuggled}`,
  'a space before the colon': `${post}Content-Length : 0\r\n\r\n${smuggled}`,
  'a bare line feed after a header': `${post}X: a\nContent-Length: 0\r\n\r\n${smuggled}`,
  'bare line feeds only': smuggled.replaceAll('\r\n', '\n'),
  'a bare carriage return': `${post}X: a\rContent-Length: 0\r\n\r\n${smuggled}`,
  'a misspelled chunked coding': `${post}Transfer-Encoding: xchunked\r\n\r\n${chunked(body)}`,
  'another coding before chunked': `${post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n${smuggled}`,
  'another coding before chunked, in two headers': `${post}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
  'Transfer-Encoding: identity': `${post}Transfer-Encoding: identity\r\n\r\n${smuggled}`,
  'an empty Transfer-Encoding': `${post}Transfer-Encoding:\r\n\r\n${smuggled}`,
  'Transfer-Encoding in HTTP/1.0': `POST /v1/users HTTP/1.0\r\n${json}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n${chunked('{}')}${smuggled}`,
  'chunked before another coding': `${post}Transfer-Encoding: chunked, identity\r\n\r\n${chunked(body)}`,
  'chunked in two headers': `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
  'chunked after a control character': `${post}Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n${smuggled}`,
  'a folded Transfer-Encoding': `${post}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n${smuggled}`,
  'a chunk size with a sign': `${post}Transfer-Encoding: chunked\r\n\r\n-1\r\n${smuggled}`,
  'a chunk size with the prefix 0x': `${post}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n${smuggled}`,
  'a chunk size over 64 bits': `${post}Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n${smuggled}`,
  'chunks that end in bare line feeds': `${post}Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n${smuggled}`,
  'NUL in a header name': `${post}Content\0-Length: 0\r\n\r\n${smuggled}`,
  'an empty header name': `${post}: 0\r\n\r\n${smuggled}`,
}

for (const [title, bytes] of Object.entries(requests))
  test.serial(`smuggling: ${title} is rejected`, async t => {
    await expectNoSideEffects(t, service, countUsers, async () => {
      const { text, answer } = await sendRaw(service.url, bytes, 'end')
      t.is(answer?.status, 400, text)
      t.regex(text, /"code":"(malformed_request|malformed_json)"/)
      t.is(text.match(/^HTTP\/1\.1 \d/gm)?.length, 1, text)
      t.regex(text, /\r\nConnection: close\r\n/i)
    })
  })

test.serial(
  'smuggling: the last of two equal JSON keys is used, and __proto__ is an unknown field',
  async t => {
    const proto = await api.post('/v1/users', '{"__proto__":{"first_name":"a","last_name":"b"}}')
    t.is(proto.status, 400, proto.text)
    t.deepEqual(proto.body.meta.errors?.map(({ field, code }) => `${field} ${code}`).sort(), [
      '__proto__ unknown_field',
      'first_name missing_field',
      'last_name missing_field',
    ])
    for (const name of ['constructor', 'toString', 'hasOwnProperty'])
      t.is((await api.post('/v1/users', { first_name: 'a', last_name: 'b', [name]: 1 })).status, 400)
    const twice = await api.post('/v1/users', '{"first_name":"a","first_name":"Twice","last_name":"Said"}')
    t.is(twice.body.first_name, 'Twice')
    for (const text of [
      '['.repeat(500_000),
      '{"a":'.repeat(100_000),
      '{"id":1e999}',
      `[${'9'.repeat(100_000)}]`,
    ])
      t.is((await api.post('/v1/users', text)).status, 400, text.slice(0, 20))
  },
)

test.serial('smuggling: the coding identity is none, in any case, and so is an empty header', async t => {
  for (const coding of ['', 'identity', 'Identity', 'IDENTITY']) {
    const headers = { 'content-type': 'application/json', 'content-encoding': coding }
    const user = JSON.stringify({ first_name: 'Coding', last_name: `of ${coding}` })
    t.is((await api.send('POST', '/v1/users', headers, user)).status, 200, coding)
  }
})

test.serial('smuggling: compressed bodies are rejected', async t => {
  for (const coding of ['gzip', 'br', 'deflate', 'zstd', 'gzip, identity', 'GZIP']) {
    const headers = { 'content-type': 'application/json', 'content-encoding': coding }
    const answer = await api.send('POST', '/v1/users', headers, body)
    t.is(answer.status, 415, coding)
    t.is(answer.body.meta.code, 'unsupported_media_type')
    t.is(answer.headers['accept-encoding'], 'identity')
    t.true(answer.body.meta.message?.includes(`"${coding}"`), answer.text)
  }
})
