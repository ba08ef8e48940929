// HTTP semantics: routes, methods, HEAD, Request-Id, size limits, Expect, pipelining, and the same API over
// TLS.
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import test from 'ava'
import { openApi } from '../support/api-suite.ts'
import { expectError, expectNoSideEffects, expectOk } from '../support/expect.ts'
import { type Answer, sendRaw } from '../support/http.ts'
import { connect } from '../support/raw.ts'

const { service, api, openClient, close } = await openApi()
const secure = openClient(service.httpsUrl)
const user = await api.create('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
const group = await api.create('/v1/groups', { name: 'Math' })
test.after.always(close)

const countUsers = () => api.count('/v1/users')
const bodyBytes = 1_048_576
const urlBytes = 8192

test('http: an unknown path is route_not_found for every method', async t => {
  const paths = [
    ...[
      '/v1',
      '/v1/',
      '/v1/nothing',
      '/v1/users/',
      '/v1/groups/',
      `/v1/users/${user}/`,
      `/v1/groups/${group}/`,
    ],
    ...[`/v1/users/${user}/friends`, `/v1/users/${user}/groups/`, `/v1/users/${user}/groups/${group}/`],
    ...[`/v1/users/${user}/groups/${group}/x`, '//v1/users', '/v1//users', '/v1/users.json'],
  ]
  for (const path of paths)
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
      expectError(t, await api.send(method, path), 404, 'route_not_found')
  for (const path of ['/', '/v1', '/v1/nothing'])
    t.regex((await api.get(path)).body.meta.message ?? '', /; \/v1\/docs lists the routes$/, path)
})

test('http: a path without a version is 404, and the message names /v1', async t => {
  for (const path of [
    '/',
    '/users',
    `/users/${user}`,
    '/groups',
    '/healthcheck/http',
    '/livez',
    '/readyz',
    '/status',
    '/metrics',
  ]) {
    const answer = await api.get(path)
    expectError(t, answer, 404, 'route_not_found')
    t.regex(answer.body.meta.message ?? '', /\/v1/, path)
  }
})

const routes: [path: string, allowed: string[]][] = [
  ['/v1/users', ['DELETE', 'GET', 'HEAD', 'PATCH', 'POST']],
  [`/v1/users/${user}`, ['DELETE', 'GET', 'HEAD', 'PATCH', 'PUT']],
  [`/v1/users/${user}/groups`, ['DELETE', 'GET', 'HEAD', 'POST']],
  [`/v1/users/${user}/groups/${group}`, ['DELETE']],
  ['/v1/groups', ['DELETE', 'GET', 'HEAD', 'PATCH', 'POST']],
  [`/v1/groups/${group}`, ['DELETE', 'GET', 'HEAD', 'PATCH', 'PUT']],
]
const allowOf = (answer: Answer) =>
  (answer.headers.allow ?? '')
    .split(/\s*,\s*/)
    .filter(method => method !== 'OPTIONS')
    .sort()

test('http: a method that the route does not support is 405 with Allow', async t => {
  for (const [path, allowed] of routes)
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND', 'TRACE', 'LINK']) {
      if (allowed.includes(method)) continue
      const answer = await api.send(method, path)
      expectError(t, answer, 405, 'method_not_allowed')
      t.deepEqual(allowOf(answer), allowed, `${method} ${path}`)
    }
  t.is((await api.send('HEAD', `/v1/users/${user}/groups/${group}`)).status, 405)
})

test('http: OPTIONS returns 204 with Allow, and with Accept-Patch if PATCH is one of the methods', async t => {
  for (const [path, allowed] of routes) {
    const answer = await api.send('OPTIONS', path)
    t.is(answer.status, 204)
    t.is(answer.text, '')
    t.truthy(answer.headers['request-id'])
    t.deepEqual(allowOf(answer), allowed, path)
    const patchTypes = allowed.includes('PATCH')
      ? 'application/json, application/merge-patch+json'
      : undefined
    t.is(answer.headers['accept-patch'], patchTypes, path)
  }
})

test('http: a path with an invalid id is 404 for every method', async t => {
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'LINK']) {
    for (const id of ['abc', '007', '0', '-1', '1.0', '9007199254740992']) {
      expectError(t, await api.send(method, `/v1/users/${id}`), 404, 'user_not_found')
      expectError(t, await api.send(method, `/v1/groups/${id}?x=1`), 404, 'group_not_found')
      expectError(t, await api.send(method, `/v1/users/${id}/groups`), 404, 'user_not_found')
      expectError(t, await api.send(method, `/v1/users/${id}/groups/${id}`), 404, 'user_not_found')
      const member = await api.send(method, `/v1/users/${user}/groups/${id}?x=1`)
      expectError(t, member, 404, 'membership_not_found')
    }
    expectError(t, await api.send(method, '/v1/docs/nothing.js'), 404, 'route_not_found')
  }
})

test.serial('http: HEAD returns the headers of GET without the body', async t => {
  const paths = [
    '/v1/users',
    '/v1/users?first_name=Ada&include=groups',
    `/v1/users/${user}`,
    `/v1/users/${user}/groups`,
  ]
  for (const path of [...paths, '/v1/groups', '/v1/users/999999', '/v1/users?x=1', '/nothing']) {
    const [get, head] = [await api.get(path), await api.send('HEAD', path)]
    t.is(head.status, get.status)
    t.is(head.text, '')
    for (const name of ['content-type', 'content-length', 'location', 'allow'])
      t.is(head.headers[name], get.headers[name], `${name} of ${path}`)
  }
})

test('http: a valid Request-Id is kept, an invalid or missing one is replaced by a unique one', async t => {
  for (const path of [`/v1/users/${user}`, '/v1/users/0', '/nothing'])
    for (const id of ['abc-123', 'A.b_9', '0b1f8a70-6b5c-4a38-9b52-5b0a9f7b2c11'])
      t.is((await api.get(path, { 'Request-Id': id })).headers['request-id'], id)
  for (const id of ['', 'two words', 'x'.repeat(5000), '"quoted"', '<b>', 'a,b', 'é']) {
    const { headers } = await api.get('/nothing', { 'Request-Id': id })
    t.truthy(headers['request-id'])
    t.not(headers['request-id'], id)
  }
  const answers = await Promise.all(Array.from({ length: 20 }, () => api.get(`/v1/users/${user}`)))
  t.is(new Set(answers.map(({ headers }) => headers['request-id'])).size, 20)
})

/** Returns a valid body of exactly `bytes` bytes: JSON allows trailing white space. */
const bodyOf = (bytes: number, last_name: string) =>
  JSON.stringify({ first_name: 'Large', last_name }).padEnd(bytes, ' ')

test.serial('http: a body of 1 MiB is accepted, a larger one is 413', async t => {
  expectOk(t, await api.post('/v1/users', bodyOf(bodyBytes, 'sized')))
  const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
  expectOk(t, await api.send('POST', '/v1/users', headers, bodyOf(bodyBytes, 'chunked')))
  await expectNoSideEffects(t, service, countUsers, async () => {
    const tooLong = bodyOf(bodyBytes + 1, 'too long')
    expectError(t, await api.post('/v1/users', tooLong), 413, 'content_too_large')
    expectError(t, await api.put(`/v1/users/${user}`, tooLong), 413, 'content_too_large')
    expectError(t, await api.send('POST', '/v1/users', headers, tooLong), 413, 'content_too_large')
    expectError(
      t,
      await api.post('/v1/users', bodyOf(8 * bodyBytes, 'far too long')),
      413,
      'content_too_large',
    )
    const zipped = gzipSync(Buffer.alloc(64 * bodyBytes, ' '))
    const encoded = {
      'content-type': 'application/json',
      'content-encoding': 'gzip',
      'content-length': zipped.length,
    }
    const bomb = await api.send('POST', '/v1/users', encoded, zipped)
    expectError(t, bomb, bomb.status === 415 ? 415 : 413, 'content_too_large', 'unsupported_media_type')
  })
})

test.serial('http: a Content-Length over the limit is 413 before the body is sent', async t => {
  const head = `POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${1e12}\r\n`
  const answers = [
    await sendRaw(service.url, `${head}Connection: close\r\n\r\n`),
    await sendRaw(service.url, `${head}Connection: close\r\nExpect: 100-continue\r\n\r\n`),
  ]
  for (const { answer, text } of answers) {
    expectError(t, answer, 413, 'content_too_large')
    t.false(text.startsWith('HTTP/1.1 100'))
  }
})

test('http: a response that precedes the end of its request ends the connection', async t => {
  const unfinished = [
    ['POST /v1/nothing', 'Content-Length: 9\r\n\r\n{', 404],
    ['POST /v1/users', 'Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{', 415],
    ['POST /v1/users', `Content-Type: application/json\r\nContent-Length: ${bodyBytes + 1}\r\n\r\n{`, 413],
    [`GET /v1/users/${user}`, 'Content-Length: 9\r\n\r\n', 200],
    ['HEAD /v1/changes', 'Accept: text/event-stream\r\nContent-Length: 9\r\n\r\n', 200],
  ] as const
  for (const [line, rest, status] of unfinished) {
    const { text } = await sendRaw(service.url, `${line} HTTP/1.1\r\nHost: x\r\n${rest}`)
    t.true(text.startsWith(`HTTP/1.1 ${status} `), text)
    t.regex(text, /^connection: close/im, line)
  }
  const stream = await connect(service.port('http'))
  stream.write(
    'GET /v1/changes HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nContent-Length: 9\r\n\r\n',
  )
  t.regex(await stream.until(/\r\n\r\n/), /^connection: close/im)
  stream.socket.destroy()
  const whole = `POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`
  const { text } = await sendRaw(
    service.url,
    whole.repeat(2) + whole.replace('Host', 'Connection: close\r\nHost'),
  )
  t.deepEqual(text.match(/(?<=HTTP\/1.1 )\d+/g), ['404', '404', '404'])
})

test('http: a body in chunks that is far too long gets 413, and leaves no connection open that is not read', async t => {
  const head = 'POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
  const body = `Transfer-Encoding: chunked\r\n\r\n${(3 * bodyBytes).toString(16)}\r\n${'a'.repeat(3 * bodyBytes)}\r\n0\r\n\r\n`
  const { answer, text } = await sendRaw(service.url, head + body)
  expectError(t, answer, 413, 'content_too_large')
  t.regex(text, /^connection: close/im)
})

test('http: a refused body that takes longer than 5 s is read to its end', async t => {
  const raw = await connect(service.port('http'), { allowHalfOpen: true })
  t.teardown(() => raw.socket.destroy())
  const errors: Error[] = []
  raw.socket.on('error', error => errors.push(error))
  raw.write('POST /v1/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n')
  // A reset of the connection can destroy a response that the client has not read yet.
  for (let byte = 0; byte < 14; byte++) {
    await delay(500)
    raw.write('a')
  }
  raw.socket.end()
  await raw.closed
  t.deepEqual(errors, [])
  t.regex(raw.text(), /^HTTP\/1.1 404 /)
})

/** Returns a valid request target of exactly `bytes` bytes. */
function targetOf(bytes: number): string {
  let target = '/v1/users?sort=id'
  while (bytes - target.length > 1000) target += `&last_name=!${'%61'.repeat(200)}`
  while (bytes - target.length > 100)
    target += `&last_name=!${'a'.repeat(Math.min(200, bytes - target.length - 12))}`
  return target + 'a'.repeat(bytes - target.length)
}

test('http: a URL of 8 KiB is accepted, a longer one is 414', async t => {
  t.is(targetOf(urlBytes).length, urlBytes)
  expectOk(t, await api.get(targetOf(urlBytes)))
  for (const bytes of [urlBytes + 1, 12_000, 20_000, 60_000])
    expectError(t, await api.get(`/v1/users?first_name=${'a'.repeat(bytes - 21)}`), 414, 'uri_too_long')
})

test('http: headers of nearly 16 KiB are accepted with any URL, larger ones are 431', async t => {
  const pad = (bytes: number) => ({ 'x-pad': 'a'.repeat(bytes) })
  expectOk(t, await api.get(`/v1/users/${user}`, pad(15 * 1024)))
  expectOk(t, await api.get(targetOf(urlBytes), pad(15 * 1024)))
  for (const bytes of [17 * 1024, 60_000]) {
    const request = `GET /v1/users HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Pad: ${'a'.repeat(bytes)}\r\n\r\n`
    expectError(t, (await sendRaw(service.url, request)).answer, 431, 'headers_too_large')
  }
})

test('http: Expect: 100-continue is met, other expectations are 417', async t => {
  const body = JSON.stringify({ first_name: 'Expect', last_name: 'Continue' })
  const request = (expectation: string) =>
    `POST /v1/users HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${body.length}\r\nRequest-Id: mine\r\nExpect: ${expectation}\r\n\r\n${body}`
  const met = await sendRaw(service.url, request('100-continue'))
  t.regex(met.text, /^HTTP\/1\.1 100 /)
  t.is(met.answer?.status, 200, met.text)
  const { answer, text } = await sendRaw(service.url, request('something-else'))
  expectError(t, answer, 417, 'expectation_failed')
  t.regex(text, /\r\nRequest-Id: mine\r\n/)
})

test('http: an error after 100 Continue leaves the connection open', async t => {
  const post = 'POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
  const get = `GET /v1/users/${user} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`
  const { text } = await sendRaw(
    service.url,
    `${post}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}${get}`,
  )
  t.deepEqual(text.match(/(?<=HTTP\/1.1 )\d+/g), ['100', '400', '200'])
})

test('http: Expect is ignored in HTTP/1.0', async t => {
  const id = await api.create('/v1/users', { first_name: 'Expect', last_name: 'Ignored' })
  for (const expectation of ['100-continue', 'something-else']) {
    const head = `PATCH /v1/users/${id} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n`
    const { text } = await sendRaw(service.url, `${head}Expect: ${expectation}\r\n\r\n{}`)
    t.regex(text, /^HTTP\/1\.1 200 /)
  }
})

test('http: a GET pipelined after a DELETE is 404', async t => {
  const id = await api.create('/v1/users', { first_name: 'Pipelined', last_name: 'Delete' })
  const request = (method: string, more = '') =>
    `${method} /v1/users/${id} HTTP/1.1\r\nHost: x\r\n${more}\r\n`
  const { text } = await sendRaw(
    service.url,
    request('GET') + request('DELETE') + request('GET', 'Connection: close\r\n'),
  )
  t.deepEqual(text.match(/(?<=HTTP\/1.1 )\d+/g), ['200', '200', '404'])
})

test('http: pipelined requests are answered in order', async t => {
  const request = (path: string, last: boolean) =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\n${last ? 'Connection: close\r\n' : ''}\r\n`
  const { text } = await sendRaw(
    service.url,
    request(`/v1/users/${user}`, false) + request('/v1/users/0', true),
  )
  t.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 404'])
})

test('http: 300 pipelined requests get 300 right responses, in order', async t => {
  const unknown = 2 ** 40
  const requests = Array.from({ length: 300 }, (_, at) =>
    at % 3 === 0 ? `GET /v1/users/${user}` : `GET /v1/users/${unknown + at}`,
  )
  const { text } = await sendRaw(
    service.url,
    requests
      .map(
        (line, at) =>
          `${line} HTTP/1.1\r\nHost: x\r\nRequest-Id: ${at}\r\n${at === 299 ? 'Connection: close\r\n' : ''}\r\n`,
      )
      .join(''),
  )
  t.deepEqual(
    [...text.matchAll(/HTTP\/1.1 (\d+)|Request-Id: (\d+)/g)].map(([, status, id]) => status ?? id),
    requests.flatMap((_, at) => [at % 3 === 0 ? '200' : '404', String(at)]),
  )
})

test('http: HTTP/1.0 is supported, and Upgrade is ignored', async t => {
  const old = await sendRaw(service.url, `GET /v1/users/${user} HTTP/1.0\r\nHost: x\r\n\r\n`)
  t.is(old.answer?.status, 200, old.text)
  const upgrade = `GET /v1/users/${user} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n`
  t.is((await sendRaw(service.url, upgrade)).answer?.status, 200)
})

test('http: the https port serves the same API over TLS', async t => {
  const [plain, encrypted] = [await api.get(`/v1/users/${user}`), await secure.get(`/v1/users/${user}`)]
  expectOk(t, encrypted)
  t.is(encrypted.text, plain.text)
  const created = await secure.post('/v1/users', { first_name: 'Tls', last_name: 'User' })
  expectOk(t, created)
  t.is(new URL(created.headers.location ?? '', service.httpsUrl).origin, service.httpsUrl)
  expectError(t, await secure.get('/v1/nothing'), 404, 'route_not_found')
  expectError(t, await secure.get(`/v1/users?first_name=${'a'.repeat(urlBytes)}`), 414, 'uri_too_long')
  expectError(t, await secure.get('/v1/users', { 'x-pad': 'a'.repeat(17 * 1024) }), 431, 'headers_too_large')
})
