// Errors: rejected bodies and media types, the order in which faults are checked, and injection attempts.
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectNoSideEffects, expectOk } from '../support/expect.ts'
import type { Answer } from '../support/http.ts'

const { service, api, close } = await openApi()
const user = await api.create('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
const group = await api.create('/v1/groups', { name: 'Math' })
await api.post(`/v1/users/${user}/groups`, { id: group })
test.after.always(close)

const unknown = Number.MAX_SAFE_INTEGER
const countAll = async () => 1e6 * (await api.count('/v1/users')) + (await api.count('/v1/groups'))

const json = { 'content-type': 'application/json' }
const notJson: (string | Buffer)[] = [
  ...[
    '{',
    '{"first_name":}',
    "{'first_name':'a'}",
    '{"first_name":"a",}',
    '{"first_name":"a"} x',
    'undefined',
    'NaN',
  ],
  ...[
    '{"first_name":01}',
    '{"first_name":"a\nb"}',
    '\u0000',
    'first_name=a',
    '<a/>',
    '{"first_name":"\\x41"}',
  ],
  // Invalid UTF-8: a stray byte, an overlong form, a surrogate, a truncated character, other encodings.
  ...['ff', 'c0af', 'eda080', 'f09f98'].map(hex => Buffer.from(`7b2261223a22${hex}227d`, 'hex')),
  Buffer.from('{"first_name":"a","last_name":"b"}', 'utf16le'),
  Buffer.from('{"first_name":"Zoë","last_name":"b"}', 'latin1'),
]
test.serial('errors: invalid JSON is malformed_json and stores nothing', async t => {
  await expectNoSideEffects(t, service, countAll, async () => {
    for (const body of notJson) {
      const headers = { ...json, 'content-length': Buffer.byteLength(body) }
      for (const [method, path] of [
        ['POST', '/v1/users'],
        ['PUT', `/v1/users/${user}`],
        ['PATCH', `/v1/groups/${group}`],
        ['POST', `/v1/users/${user}/groups`],
      ] as const)
        expectError(t, await api.send(method, path, headers, body), 400, 'malformed_json')
    }
    const codes = ['malformed_json', 'invalid_body', 'missing_field']
    expectError(t, await api.send('POST', '/v1/users', { ...json, 'content-length': 0 }), 400, ...codes)
  })
})

test.serial('errors: deeply nested JSON is a client error', async t => {
  const depth = 400_000
  const deep = '['.repeat(depth) + ']'.repeat(depth)
  expectError(t, await api.post('/v1/users', deep), 400, 'invalid_body', 'malformed_json')
  const nested = `{"first_name":${deep},"last_name":"b"}`
  expectError(t, await api.post('/v1/users', nested), 400, 'invalid_field', 'malformed_json')
})

test.serial('errors: media types other than JSON are 415', async t => {
  const body = '{"first_name":"Media","last_name":"Type"}'
  const types = [
    'text/plain',
    'text/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'application/xml',
    'json',
    'application/json; charset="utf-16"',
    'application/json;\tcharset=utf-16;',
  ]
  await expectNoSideEffects(t, service, countAll, async () => {
    for (const type of types) {
      const headers = { 'content-type': type, 'content-length': body.length }
      const post = await api.send('POST', '/v1/users', headers, body)
      expectError(t, post, 415, 'unsupported_media_type')
      t.is(post.headers['accept-patch'], undefined)
      const patch = await api.send('PATCH', `/v1/users/${user}`, headers, body)
      expectError(t, patch, 415, 'unsupported_media_type')
      t.is(patch.headers['accept-patch'], 'application/json, application/merge-patch+json')
    }
    const headers = { 'content-type': 'application/merge-patch+json', 'content-length': body.length }
    for (const [method, path] of [
      ['POST', '/v1/users'],
      ['PUT', `/v1/users/${user}`],
    ] as const) {
      const patch = await api.send(method, path, headers, body)
      expectError(t, patch, 415, 'unsupported_media_type')
      t.regex(patch.body.meta.message ?? '', /allowed: application\/json in UTF-8/)
    }
    const untyped = await api.send('POST', '/v1/users', { 'content-length': body.length }, body)
    expectError(t, untyped, 415, 'unsupported_media_type')
    t.is(untyped.body.meta.message, 'the content type is missing; allowed: application/json in UTF-8')
  })
  const patch = { 'content-type': 'application/merge-patch+json;charset=utf-8', 'content-length': 2 }
  expectOk(t, await api.send('PATCH', `/v1/users/${user}`, patch, '{}'))
  for (const type of [
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
    'application/json;\tcharset=utf-8;',
    'Application/JSON',
  ]) {
    const headers = { 'content-type': type, 'content-length': body.length }
    const answer = await api.send('POST', '/v1/users', headers, body)
    expectOk(t, answer)
    await api.delete(`/v1/users/${answer.body.id}`)
  }
})

test.serial('errors: an Accept header that excludes JSON is 406', async t => {
  for (const accept of [
    'text/html',
    'application/xml',
    'application/json;q=0',
    'image/*',
    'application/json;charset=utf-16',
  ]) {
    expectError(t, await api.get(`/v1/users/${user}`, { accept }), 406, 'not_acceptable')
    expectError(t, await api.get('/v1/users', { accept }), 406, 'not_acceptable')
  }
  for (const accept of [
    'application/json',
    'application/*',
    '*/*',
    'text/html, */*;q=0.1',
    'text/html, application/json;q=0.5',
    'application/json; charset=utf-8',
    'Application/JSON;charset="UTF-8", text/html',
    'text/html, application/json;charset=utf-8;q=0.5',
  ]) {
    expectOk(t, await api.get(`/v1/users/${user}`, { accept }))
    expectOk(t, await api.patch(`/v1/users/${user}`, {}, { accept }))
  }
})

test.serial('errors: an Accept header of more than 1,024 characters is disregarded', async t => {
  for (const path of ['/v1/users', '/v1/changes', '/v1/openapi.json', '/v1/docs']) {
    const image = `image/png${' '.repeat(1015)}`
    t.is(image.length, 1024)
    expectError(t, await api.get(path, { accept: `${image.slice(0, -1)}x` }), 406, 'not_acceptable')
    t.is((await api.get(path, { accept: `${image}x` })).status, 200, path)
    t.is((await api.get(path, { accept: 'image/png,'.repeat(1600) })).status, 200, path)
  }
})

test.serial(
  'errors: the content type of a response is accepted in Accept, including the documentation pages',
  async t => {
    for (const path of [
      `/v1/users/${user}`,
      '/v1/users',
      '/v1/openapi.json',
      '/v1/docs',
      '/v1/docs/page.css',
    ]) {
      const accept = String((await api.get(path)).headers['content-type'])
      t.is((await api.get(path, { accept })).status, 200, `${accept} of ${path}`)
    }
  },
)

test.serial(
  'errors: checks run in order: route, method, parameters, media type and size, body, existence',
  async t => {
    const text = { 'content-type': 'text/plain' }
    const tooLong = `{"x":"${'x'.repeat(2 ** 20)}"`
    const large = { ...json, 'content-length': tooLong.length }
    const rows: [status: number, code: string, answer: Promise<Answer>][] = [
      [404, 'route_not_found', api.send('POST', '/v1/nothing?x=1', text, 'x')],
      [405, 'method_not_allowed', api.send('PUT', '/v1/users?x=1', text, 'x')],
      [400, 'unknown_parameter', api.send('POST', '/v1/users?x=1', text, 'x')],
      [400, 'unknown_parameter', api.send('PUT', `/v1/users/${unknown}?x=1`, json, '{')],
      [415, 'unsupported_media_type', api.send('PUT', `/v1/users/${unknown}`, text, '{')],
      [413, 'content_too_large', api.send('PUT', `/v1/users/${unknown}`, large, tooLong)],
      [400, 'malformed_json', api.send('PUT', `/v1/users/${unknown}`, json, '{')],
      [400, 'unknown_field', api.patch(`/v1/users/${unknown}`, { age: 1 })],
      [400, 'invalid_field', api.post(`/v1/users/${unknown}/groups`, { id: 'x' })],
      [404, 'user_not_found', api.patch(`/v1/users/${unknown}`, {})],
      [404, 'user_not_found', api.put(`/v1/users/${unknown}`, { first_name: 'Ada', last_name: 'Lovelace' })],
    ]
    for (const [status, code, answer] of rows) expectError(t, await answer, status, code)
  },
)

const injections = [
  ...[
    "'; DROP TABLE users; --",
    '" OR ""="',
    "' OR '1'='1",
    'Robert`); DROP TABLE users;--',
    "\\'; --",
    '?',
    '??',
    ':name',
  ],
  ...[
    '%',
    '_',
    '%%',
    '$1',
    '${1}',
    '{{1}}',
    '<script>alert(1)</script>',
    '../../etc/passwd',
    '0x27',
    'NULL',
    "';SLEEP(9)#",
  ],
]
test.serial('errors: SQL injection attempts are stored as plain names', async t => {
  const [users, groups] = [await api.count('/v1/users'), await api.count('/v1/groups')]
  const made = await api.post('/v1/users', {
    users: injections.map(name => ({ first_name: name, last_name: name })),
  })
  t.is(made.body.meta.created, injections.length, made.text)
  for (const name of injections) {
    const id = await api.create('/v1/groups', { name })
    const found = await api.get(
      `/v1/users?${new URLSearchParams({ first_name: name, 'last_name[in]': name })}`,
    )
    t.deepEqual(
      found.body.users?.map(({ first_name }) => first_name),
      [name],
    )
    expectOk(t, await api.post(`/v1/users/${found.body.users?.[0]?.id}/groups`, { id }))
    t.is(await api.count(`/v1/users?${new URLSearchParams({ 'groups[*].name': name })}`), 1)
    t.is((await api.get(`/v1/groups/${id}`)).body.name, name)
  }
  t.is(await api.count('/v1/users'), users + injections.length)
  t.is(await api.count('/v1/groups'), groups + injections.length)
})

test.serial(
  'errors: SQL injection attempts in parameter names, values, ids and sort keys are rejected',
  async t => {
    await expectNoSideEffects(t, service, countAll, async () => {
      for (const text of injections) {
        const value = encodeURIComponent(text)
        for (const query of [`${value}=1`, `first_name[${value}]=1`, `groups[*].${value}=1`])
          expectError(t, await api.get(`/v1/users?${query}`), 400, 'unknown_parameter')
        for (const query of [`sort=${value}`, `id=${value}`, `records_per_page=${value}`, `include=${value}`])
          expectError(t, await api.get(`/v1/users?${query}`), 400, 'invalid_parameter')
        expectError(t, await api.get(`/v1/users/1${value}`), 404, 'user_not_found', 'route_not_found')
      }
    })
  },
)
