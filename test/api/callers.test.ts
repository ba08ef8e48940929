// Callers: every operation without a token, with API keys and with valid and invalid JWTs. The status, the headers and
// the JSON of each response are exact, and nothing is stored that may not be.
import { createConfig, lintFromString } from '@redocly/openapi-core'
import test, { type ExecutionContext } from 'ava'
import { openApi } from '../support/api-suite.ts'
import { openEventStream } from '../support/event-stream.ts'
import { expectError, expectOk } from '../support/expect.ts'
import { type Answer, sendRaw } from '../support/http.ts'
import {
  apiKey,
  claims,
  claimsAt,
  createKey,
  sign,
  signedWithPublicKey,
  startIssuer,
  tampered,
  unsigned,
} from '../support/issuer.ts'
import { createContract, type Document, type DocumentedOperation, operationsOf } from '../support/openapi.ts'
import { createOperator } from '../support/operator.ts'
import { connect } from '../support/raw.ts'
import type { Service } from '../support/service.ts'

const key = await createKey('one')
const issuer = await startIssuer(key)
const tokens = {
  reader: 'reader-token',
  writer: 'writer-token',
  rotated: 'rotated-token',
  alice: 'alice-token',
  dotted: 'three.parts.token',
}
const { service, api, close } = await openApi({
  config: {
    auth: {
      keys: [
        apiKey('reader', 'read', tokens.reader),
        apiKey('writer', 'write', tokens.writer),
        apiKey('writer', 'write', tokens.rotated),
        apiKey('alice', 'write', tokens.alice),
        apiKey('dotted', 'write', tokens.dotted),
      ],
      jwt: issuer.settings,
    },
    log: { level: 'info' },
  },
})
const text = (await api.get('/v1/openapi.json')).text
const document: Document = JSON.parse(text)
const contract = createContract(document)
const guarded = operationsOf(document).filter(({ path }) => !/^\/v1\/(docs|openapi)/.test(path))
const untilInFlight = (of: Service, count: number) =>
  createOperator(of).until(({ ports }) => ports.http?.in_flight === count)

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const writer = bearer(tokens.writer)

/** Sends a request of the operation that is valid but for its caller. Its ids are unknown. */
function call({ path, method }: DocumentedOperation, headers: Record<string, string>): Promise<Answer> {
  const url = path.replaceAll(/{\w+}/g, '999999')
  if (method === 'GET' || method === 'DELETE') return api.send(method, url, headers)
  const names = { first_name: 'never', last_name: 'stored' }
  const body = /\/\w+s\/{\w+}\/\w+s$/.test(path)
    ? { id: 1 }
    : path.includes('groups')
      ? { name: 'never' }
      : names
  return method === 'POST'
    ? api.post(url, body, headers)
    : method === 'PUT'
      ? api.put(url, body, headers)
      : api.patch(url, body, headers)
}

const challenge = 'Bearer realm="users-api"'
const noToken = {
  status: 401,
  code: 'unauthorized',
  message: 'the request has no token: send it as Authorization: Bearer <token>',
  challenge,
}
const badToken = (message: string) => ({
  status: 401,
  code: 'unauthorized',
  message,
  challenge: `${challenge}, error="invalid_token", error_description="${message}"`,
})
function needs(scope: string) {
  const message = `this request needs the scope ${scope}, which the token does not have`
  return {
    status: 403,
    code: 'forbidden',
    message,
    challenge: `${challenge}, error="insufficient_scope", error_description="${message}", scope="${scope}"`,
  }
}
type Refusal = typeof noToken

function expectRefusal(t: ExecutionContext, described: DocumentedOperation, answer: Answer, wanted: Refusal) {
  const { status, code, message } = wanted
  const { 'request-id': request_id, 'www-authenticate': header, ...others } = answer.headers
  t.deepEqual<unknown, unknown>(answer.body, { meta: { status, message, code, request_id } })
  t.is(answer.status, status)
  t.is(header, wanted.challenge)
  t.is(others['cache-control'], 'no-store')
  contract.check(t, described, answer)
}

const algorithms = 'RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, Ed25519, EdDSA'
const unknownKey = await createKey('unknown')
const impostor = await createKey('one')
/** Tokens that no operation accepts. */
const refused: Record<string, [headers: Record<string, string>, Refusal]> = {
  'no token': [{}, noToken],
  'another scheme': [{ authorization: 'Basic YTpi' }, noToken],
  'another scheme with the token': [{ authorization: `BearerX ${tokens.writer}` }, noToken],
  'an empty token': [{ authorization: 'Bearer ' }, noToken],
  'a token with a space': [bearer(`${tokens.writer} x`), badToken('the token is not known')],
  'an unknown API key': [bearer('nobody'), badToken('the token is not known')],
  'the hash of an API key': [
    bearer(apiKey('', 'read', tokens.writer).sha256),
    badToken('the token is not known'),
  ],
  'an expired JWT': [bearer(await sign(key, claimsAt('exp', -3600))), badToken('the token has expired')],
  'a JWT that is not valid yet': [
    bearer(await sign(key, claimsAt('nbf', 3600))),
    badToken('the token is not valid yet'),
  ],
  'a JWT for another audience': [
    bearer(await sign(key, { ...claims(), aud: 'another' })),
    badToken('the token is for another audience'),
  ],
  'a JWT of another issuer': [
    bearer(await sign(key, { ...claims(), iss: 'another' })),
    badToken('the token is from another issuer'),
  ],
  'a tampered JWT': [
    bearer(tampered(await sign(key, claims()))),
    badToken('the signature of the token is wrong'),
  ],
  'a JWT of another key with the same id': [
    bearer(await sign(impostor, claims())),
    badToken('the signature of the token is wrong'),
  ],
  'a JWT with an unknown key id': [
    bearer(await sign(unknownKey, claims())),
    badToken('the key of the token is not a key of the issuer'),
  ],
  'a JWT with alg none': [
    bearer(unsigned(claims())),
    badToken(`the algorithm of the token is not allowed; allowed: ${algorithms}`),
  ],
  'a JWT signed with HS256 and the public key': [
    bearer(await signedWithPublicKey(key, claims())),
    badToken(`the algorithm of the token is not allowed; allowed: ${algorithms}`),
  ],
  'text with dots': [bearer('a.b.c'), badToken('the token is not a valid JWT')],
}
/** Callers that may read only, and those that may do everything. */
const allowed: Record<string, [headers: Record<string, string>, scopes: readonly ('read' | 'write')[]]> = {
  'an API key for reading': [bearer(tokens.reader), ['read']],
  'an API key for writing': [writer, ['read', 'write']],
  'an API key with dots like a JWT': [bearer(tokens.dotted), ['read', 'write']],
  'a scheme in lower case and two spaces': [{ authorization: `bearer  ${tokens.writer}` }, ['read', 'write']],
  'a JWT for reading': [bearer(await sign(key, claims('openid users:read'))), ['read']],
  'a JWT for writing': [bearer(await sign(key, claims('users:write'))), ['read', 'write']],
  'a JWT without a scope': [bearer(await sign(key, claims('openid'))), []],
}

test.after.always(async t => {
  issuer.close()
  await close(t)
})

test.serial('callers: the document has every operation with its scope, and no other with one', t => {
  t.true(guarded.length >= 14)
  for (const { path, method, operation } of operationsOf(document)) {
    const isGuarded = guarded.some(one => one.path === path && one.method === method)
    // Spectral's rules accept no roles of a scheme that is not OAuth's.
    t.deepEqual(operation.security, isGuarded ? [{ token: [] }] : undefined, `${method} ${path}`)
    const scope = method === 'GET' ? 'users:read' : 'users:write'
    const refusal = JSON.stringify(operation.responses[403] ?? {})
    t.is(refusal.includes(`needs the scope ${scope},`), isGuarded, `${method} ${path}`)
  }
})

test.serial('callers: the document passes the recommended rules of Redocly', async t => {
  const config = await createConfig({ extends: ['recommended'] })
  const problems = await lintFromString({ source: text, absoluteRef: '/openapi.json', config })
  t.deepEqual(
    problems.map(({ ruleId, message }) => `${ruleId}: ${message}`),
    [],
  )
})

for (const [title, [headers, wanted]] of Object.entries(refused))
  test.serial(`callers: ${title} is refused by every operation`, async t => {
    for (const described of guarded) expectRefusal(t, described, await call(described, headers), wanted)
    const head = await api.send('HEAD', '/v1/users', headers)
    t.like(head, { status: wanted.status, text: '' })
    t.is(head.headers['www-authenticate'], wanted.challenge)
  })

for (const [title, [headers, scopes]] of Object.entries(allowed))
  test.serial(`callers: ${title} allows ${scopes.join(' and ') || 'nothing'}`, async t => {
    for (const described of guarded) {
      const needed = described.method === 'GET' ? 'read' : 'write'
      if (!scopes.includes(needed)) {
        expectRefusal(t, described, await call(described, headers), needs(`users:${needed}`))
        continue
      }
      // A valid request would store something: this one fails after the caller is known.
      const path = described.path.replaceAll(/{\w+}/g, '999999')
      const answer = await api.send(described.method, `${path}?colour=red`, headers)
      expectError(t, answer, 400, 'unknown_parameter')
      contract.check(t, described, answer)
    }
    t.is((await api.send('HEAD', '/v1/users', headers)).status, scopes.includes('read') ? 200 : 403)
  })

test.serial('callers: nothing was stored by the requests above', async t => {
  for (const path of ['/v1/users', '/v1/groups'])
    t.is((await api.get(path, writer)).body.meta.total_records, 0)
})

test.serial('callers: a full round with a token, and reading with another', async t => {
  const created = await api.post('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' }, writer)
  expectOk(t, created)
  const path = `/v1/users/${created.body.id}`
  t.is((await api.get(path, bearer(tokens.reader))).body.first_name, 'Ada')
  expectOk(t, await api.delete(path, bearer(await sign(key, claims()))))
})

test.serial('callers: shared caches may not store what a caller reads', async t => {
  const { etag = '' } = (await api.get('/v1/users', bearer(tokens.reader))).headers
  for (const [path, headers, status] of [
    ['/v1/users', {}, 200],
    ['/v1/users', { 'if-none-match': etag }, 304],
    ['/v1/changes', {}, 200],
  ] as const) {
    const answer = await api.get(path, { ...bearer(tokens.reader), ...headers })
    t.is(answer.status, status, path)
    t.is(answer.headers['cache-control'], 'private, no-cache', path)
  }
  t.is((await api.get('/v1/docs')).headers['cache-control'], 'no-cache')
})

test.serial('callers: route and method come before the caller, everything else after', async t => {
  expectError(t, await api.get('/v1/nothing'), 404, 'route_not_found')
  expectError(t, await api.get('/users'), 404, 'route_not_found')
  expectError(t, await api.send('TRACE', '/v1/users'), 405, 'method_not_allowed')
  const json = { 'content-type': 'application/json' }
  for (const [method, path, headers, body] of [
    ['GET', '/v1/users?colour=red', {}, undefined],
    ['GET', '/v1/users/abc', {}, undefined],
    ['GET', '/v1/users', { accept: 'image/png' }, undefined],
    ['POST', '/v1/users', { 'content-type': 'text/plain' }, 'x'],
    ['POST', '/v1/users', json, '{'],
    ['POST', '/v1/users', json, ' '.repeat(2 ** 21)],
    ['POST', '/v1/users', { ...json, 'idempotency-key': 'ä' }, '{}'],
    ['PUT', '/v1/users/999999', { ...json, 'if-match': 'none' }, '{}'],
  ] as const)
    expectError(t, await api.send(method, path, headers, body), 401, 'unauthorized')
})

test.serial('callers: the document, its page and OPTIONS are open, whatever token is sent', async t => {
  for (const headers of [{}, bearer('nobody')])
    for (const path of ['/v1/openapi.json', '/v1/docs', '/v1/docs/page.js']) {
      t.is((await api.get(path, headers)).status, 200, path)
      t.is((await api.send('OPTIONS', path, headers)).status, 204, path)
    }
  t.is((await api.send('OPTIONS', '/v1/users')).status, 204)
  t.is((await api.send('OPTIONS', '/v1/users/1/groups')).status, 204)
})

test.serial('callers: two tokens are refused, whichever of them is valid', async t => {
  for (const [first, second] of [
    [tokens.reader, 'nobody'],
    ['nobody', tokens.reader],
  ]) {
    const head = `Host: a\r\nAuthorization: Bearer ${first}\r\nAuthorization: Bearer ${second}\r\nConnection: close`
    const { answer } = await sendRaw(service.url, `GET /v1/users HTTP/1.1\r\n${head}\r\n\r\n`)
    expectError(t, answer, 401, 'unauthorized')
    t.is(answer?.body.meta.message, 'the request has several Authorization headers')
  }
})

test.serial('callers: the response to a refused request does not wait for the body', async t => {
  const head = 'POST /v1/users HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n'
  const early = await sendRaw(service.url, `${head}\r\n`)
  t.regex(early.text, /^HTTP\/1\.1 401 /)
  const expecting = await sendRaw(service.url, `${head}Expect: 100-continue\r\n\r\n`)
  t.regex(expecting.text, /^HTTP\/1\.1 401 /, 'the client is not told to continue')

  const read = `GET /v1/users HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer ${tokens.reader}\r\n\r\n`
  const { text } = await sendRaw(service.url, `${head}\r\n{"a":"b"}${read}`)
  t.deepEqual(text.match(/(?<=HTTP\/1.1 )\d+/g), ['401', '200'], 'the body is not taken for a request')
})

test.serial('callers: a client may leave while its JWT is verified', async t => {
  const slow = await startIssuer(key)
  t.teardown(slow.close)
  const release = slow.hold()
  const config = { auth: { jwt: slow.settings }, log: { level: 'info' }, fleet: { beatMs: 50 } }
  const other = await openApi({ database: service.database, config })
  t.teardown(() => other.service.stop())
  const token = await sign(key, claims())
  // The reading at the start can end at any time. The request begins another one, which has its whole time.
  await other.service.logLine(/the keys of the JWT issuer cannot be read/)
  const raw = await connect(other.service.port('http'))
  raw.write(
    `POST /v1/users HTTP/1.1\r\nHost: a\r\nRequest-Id: left\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n`,
  )
  await untilInFlight(other.service, 1)
  raw.socket.destroy()
  await untilInFlight(other.service, 0)
  release()
  t.is((await other.api.get('/v1/users', bearer(token))).status, 200)
  await other.service.logLine(/"status":400,.*"requestId":"left"/)
  await other.close(t)
  t.notRegex(other.service.log(), /internal_error/)
})

test.serial('log: the error of a request has its route and not its path', async t => {
  const away = await startIssuer(key)
  t.teardown(away.close)
  away.setAway(true)
  const other = await openApi({ database: service.database, config: { auth: { jwt: away.settings } } })
  t.teardown(() => other.service.stop())
  const headers = { ...bearer(await sign(key, claims())), 'request-id': 'away' }
  expectError(t, await other.api.get('/v1/users/Secret', headers), 503, 'unavailable')
  const line = await other.service.logLine(/"requestId":"away".*"msg":"unavailable"/)
  t.like(JSON.parse(line), { method: 'GET', route: '/v1/users/:user_id', path: undefined })
  await other.close(t)
  t.notRegex(other.service.log(), /Secret/)
})

test.serial('idempotency: a key belongs to its caller', async t => {
  const idempotent = (token: string) => ({ ...bearer(token), 'idempotency-key': 'same' })
  const post = (token: string, last_name: string) =>
    api.post('/v1/users', { first_name: 'Once', last_name }, idempotent(token))
  const jwt = await sign(key, { ...claims(), jti: 'first' })
  const callers = [tokens.writer, tokens.alice, jwt]
  const first = []
  for (const [index, token] of callers.entries()) first.push(await post(token, `name ${index}`))
  for (const answer of first) {
    expectOk(t, answer)
    t.is(answer.headers['idempotent-replayed'], undefined)
  }
  for (const [index, token] of callers.entries()) {
    const again = await post(token, `name ${index}`)
    t.is(again.headers['idempotent-replayed'], 'true')
    t.is(again.text, first[index]?.text ?? '')
    expectError(t, await post(token, 'another'), 422, 'idempotency_key_reused')
  }
  for (const other of [tokens.rotated, await sign(key, { ...claims(), jti: 'second' })]) {
    const index = other === tokens.rotated ? 0 : 2
    t.is((await post(other, `name ${index}`)).headers['idempotent-replayed'], 'true', 'the same caller')
  }
  t.is((await api.get('/v1/users?first_name=Once', writer)).body.meta.total_records, 3)
})

test.serial('request log: the name of the caller, also of one who may not send the request', async t => {
  const sub = 'Zoë "茶"\n'
  await api.get('/v1/users', { ...bearer(await sign(key, { ...claims(), sub })), 'request-id': 'by-jwt' })
  await api.get('/v1/users', { ...writer, 'request-id': 'by-key' })
  await api.delete('/v1/users/1', { ...bearer(tokens.reader), 'request-id': 'forbidden' })
  await api.get('/v1/users', { 'request-id': 'by-none' })
  await api.get('/v1/docs', { ...writer, 'request-id': 'open' })
  const expected = {
    'by-jwt': { caller: sub, status: 200 },
    'by-key': { caller: 'writer', status: 200 },
    forbidden: { caller: 'reader', status: 403, route: '/v1/users/:user_id' },
    'by-none': { caller: undefined, status: 401, route: '/v1/users' },
    open: { caller: undefined, status: 200 },
  }
  for (const [requestId, fields] of Object.entries(expected)) {
    const line = await service.logLine(new RegExp(`"requestId":"${requestId}"`))
    t.like(JSON.parse(line), fields)
  }
  for (const token of Object.values(tokens)) t.false(service.log().includes(token))
})

test('jwt: a stream of changes ends after its token has expired, and can be opened with another one', async t => {
  // Clocks may differ by 30 s, so the token is valid for 13 s from now. The first heartbeat comes after 15 s.
  const expiring = await sign(key, claimsAt('exp', -17))
  const url = `${service.url}/v1/changes?after=latest`
  const [ends, goes] = await Promise.all([
    openEventStream(url, bearer(expiring)),
    openEventStream(url, bearer(tokens.reader)),
  ])
  await ends.untilEnd()
  expectError(t, await api.get('/v1/changes', bearer(expiring)), 401, 'unauthorized')
  const user = await api.post('/v1/users', { first_name: 'after', last_name: 'expiry' }, writer)
  await goes.until(() =>
    goes.blocks().some(({ data }) => data?.includes(`"user_id":${user.body.id}`) === true),
  )
  t.false(ends.blocks().some(({ data }) => data?.includes(`"user_id":${user.body.id}`) === true))
  goes.close()
})
