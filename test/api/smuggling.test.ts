// Requests whose end two readers could see at different places: refused, and whatever follows them is never served.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectUnharmed } from '../support/expect.ts'
import { sendRaw } from '../support/http.ts'

const { service, api, close } = await openApi()
test.after.always(close)

const countUsers = () => api.count('/v1/users')
const json = 'Host: a\r\nContent-Type: application/json\r\n'
const post = `POST /v1/users HTTP/1.1\r\n${json}`
const body = '{"first_name":"Smuggled","last_name":"In"}'
/** What would be served if the request before it were seen to end early. */
const hidden = `${post}Content-Length: ${body.length}\r\n\r\n${body}`
const chunked = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`

const shapes: Record<string, string> = {
  'a length and chunks': `${post}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
  'chunks and a length': `${post}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n${hidden}`,
  'two lengths': `${post}Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`,
  'two equal lengths': `${post}Content-Length: 0\r\nContent-Length: 0\r\n\r\n${hidden}`,
  'a list of lengths': `${post}Content-Length: 0, 0\r\n\r\n${hidden}`,
  'a length with a sign': `${post}Content-Length: +0\r\n\r\n${hidden}`,
  'a length in hexadecimal': `${post}Content-Length: 0x0\r\n\r\n${hidden}`,
  'a length with a space in it': `${post}Content-Length: 0 0\r\n\r\n${hidden}`,
  'a length over what a number holds': `${post}Content-Length: 18446744073709551616\r\n\r\n${hidden}`,
  'a folded length': `${post}Content-Length:\r\n 0\r\n\r\n${hidden}`,
  'a folded header': `${post}X-Folded: a\r\n Content-Length: 0\r\n\r\n${hidden}`,
  'a space before the colon': `${post}Content-Length : 0\r\n\r\n${hidden}`,
  'a bare line feed after a header': `${post}X: a\nContent-Length: 0\r\n\r\n${hidden}`,
  'bare line feeds everywhere': hidden.replaceAll('\r\n', '\n'),
  'a bare carriage return': `${post}X: a\rContent-Length: 0\r\n\r\n${hidden}`,
  'chunked, misspelled': `${post}Transfer-Encoding: xchunked\r\n\r\n${chunked(body)}`,
  'chunked behind another coding': `${post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n${hidden}`,
  'chunked behind another coding, in two headers': `${post}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
  'no coding by its name': `${post}Transfer-Encoding: identity\r\n\r\n${hidden}`,
  'an empty coding': `${post}Transfer-Encoding:\r\n\r\n${hidden}`,
  'chunked in HTTP/1.0': `POST /v1/users HTTP/1.0\r\n${json}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n${chunked('{}')}${hidden}`,
  'chunked in a list': `${post}Transfer-Encoding: chunked, identity\r\n\r\n${chunked(body)}`,
  'chunked twice': `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
  'chunked behind a control character': `${post}Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n${hidden}`,
  'chunked, folded': `${post}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n${hidden}`,
  'a chunk size with a sign': `${post}Transfer-Encoding: chunked\r\n\r\n-1\r\n${hidden}`,
  'a chunk size in other letters': `${post}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n${hidden}`,
  'a chunk size that overflows': `${post}Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n${hidden}`,
  'a chunk that ends in a bare line feed': `${post}Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n${hidden}`,
  'NUL in the name of a header': `${post}Content\0-Length: 0\r\n\r\n${hidden}`,
  'an empty name of a header': `${post}: 0\r\n\r\n${hidden}`,
}

for (const [title, bytes] of Object.entries(shapes))
  test.serial(title, async t => {
    await expectUnharmed(t, service, countUsers, async () => {
      const { text, answer } = await sendRaw(service.url, bytes, 'end')
      t.is(answer?.status, 400, text)
      t.regex(text, /"code":"(malformed_request|malformed_json)"/)
      t.is(text.match(/^HTTP\/1\.1 \d/gm)?.length, 1, text)
      t.regex(text, /\r\nConnection: close\r\n/i)
    })
  })

test.serial(
  'bodies that only look harmless: the last of two keys counts, and __proto__ is a field like any',
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

test.serial('compressed bodies are refused before they are looked at', async t => {
  for (const coding of ['gzip', 'br', 'deflate', 'zstd', 'gzip, identity', 'GZIP']) {
    const headers = { 'content-type': 'application/json', 'content-encoding': coding }
    const answer = await api.send('POST', '/v1/users', headers, body)
    t.is(answer.status, 415, coding)
    t.is(answer.body.meta.code, 'unsupported_media_type')
  }
})
