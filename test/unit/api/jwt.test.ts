// JWTs: the keys of the issuer from a URL or a file, their rotation, an issuer that is away, and which tokens are valid.
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import test, { type ExecutionContext } from 'ava'
import fc from 'fast-check'
import { SignJWT } from 'jose'
import { pino } from 'pino'
import { createIssuerKeys } from '../../../src/api/callers/issuer-keys.ts'
import { createVerify } from '../../../src/api/callers/jwt.ts'
import type { JwtSettings } from '../../../src/config/auth.ts'
import { ConfigError } from '../../../src/config/config.ts'
import { ApiError } from '../../../src/core/api-error.ts'
import { createLog, type Log } from '../../../src/core/log.ts'
import type { IssuerKeys } from '../../../src/core/messages.ts'
import { folder } from '../../support/folder.ts'
import {
  audience,
  claims,
  claimsAt,
  createKey,
  issuer,
  type Key,
  keySet,
  sign,
  signedWithRsa,
  startIssuer,
} from '../../support/issuer.ts'
import { listenOnFreePort } from '../../support/ports.ts'
import { until } from '../../support/until.ts'

const log = createLog('silent', 'test')
const first = await createKey('first')
const second = await createKey('second', 'RS256')

/** Reads the keys of the issuer, as a worker does. */
async function createJwts(
  settings: JwtSettings,
  log: Log,
  report: (keys: IssuerKeys) => void,
  last?: IssuerKeys,
) {
  const issuerKeys = await createIssuerKeys(settings.jwks, log, report, last)
  return { verify: createVerify(settings, issuerKeys), useKeys: issuerKeys.use }
}

async function start(t: ExecutionContext, ...keys: Key[]) {
  const server = await startIssuer(...keys)
  t.teardown(server.close)
  return { server, ...(await createJwts(server.settings, log, () => {})) }
}

type Verify = ReturnType<typeof createVerify>

/** Returns the code and the message of the error, or the identity of the caller. */
async function outcome(verify: Verify, token: string): Promise<string> {
  try {
    const { identity, scope } = await verify(token)
    return `${identity}: ${scope}`
  } catch (error) {
    if (error instanceof ApiError) return `${error.code}: ${error.message}`
    throw error
  }
}

/** Verifies the token again until the outcome is `wanted`. @throws Error after a minute */
async function untilOutcome(verify: Verify, token: string, wanted: string): Promise<void> {
  let last = ''
  const isReached = async () => {
    last = await outcome(verify, token)
    return last === wanted
  }
  await until(isReached, { describe: () => `${last} instead of ${wanted}` })
}

test('jwt: the claims scope and sub say who the caller is and what the caller may do', async t => {
  const { verify } = await start(t, first, second)
  const scopes: [scope: unknown, expected: string | undefined][] = [
    ['users:write', 'write'],
    ['openid users:read profile', 'read'],
    ['users:read users:write', 'write'],
    ['users:reader', undefined],
    ['', undefined],
    [undefined, undefined],
    [['users:write'], undefined],
  ]
  for (const [scope, expected] of scopes)
    t.is(await outcome(verify, await sign(first, { ...claims(), scope })), `jwt alice: ${expected}`)
  t.is(await outcome(verify, await sign(second, claims())), 'jwt alice: write')
  const name = (await verify(await sign(first, { ...claims(), sub: 'x'.repeat(200) }))).name
  t.is(name, `${'x'.repeat(100)}…`)
})

test('jwt: clocks may differ by 30 seconds', async t => {
  const { verify } = await start(t, first)
  for (const [claim, seconds, expected] of [
    ['exp', -20, 'jwt alice: write'],
    ['exp', -40, 'unauthorized: the token has expired'],
    ['nbf', 20, 'jwt alice: write'],
    ['nbf', 40, 'unauthorized: the token is not valid yet'],
  ] as const)
    t.is(await outcome(verify, await sign(first, claimsAt(claim, seconds))), expected)
})

test('jwt: a verified token is remembered until it expires', async t => {
  const { verify } = await start(t, first)
  const token = await sign(first, claimsAt('exp', -20))
  t.is(await outcome(verify, token), 'jwt alice: write')
  t.false(verify(token) instanceof Promise)
  await untilOutcome(verify, token, 'unauthorized: the token has expired')
})

test.serial('jwt: a thousand verified tokens are remembered, not those before them', async t => {
  const { verify } = await start(t, first)
  const tokens = await Promise.all(
    Array.from({ length: 1001 }, (_, at) => sign(first, { ...claims(), jti: `${at}` })),
  )
  for (const token of tokens) await verify(token)
  const remembered = tokens.map(token => !(verify(token) instanceof Promise))
  t.deepEqual(
    remembered,
    tokens.map((_, at) => at > 0),
  )
})

test('jwt: required claims and their types', async t => {
  const { verify } = await start(t, first)
  for (const [change, expected] of [
    [{ exp: undefined }, 'the token has no claim exp'],
    [{ sub: undefined }, 'the token has no claim sub'],
    [{ sub: '' }, 'the claim sub is invalid'],
    [{ sub: '\ud800' }, 'the claim sub is invalid'],
    [{ aud: undefined }, 'the token has no claim aud'],
    [{ iss: undefined }, 'the token has no claim iss'],
    [{ aud: ['another', 'third'] }, 'the token is for another audience'],
    [{ iss: 'https://issuer.test' }, 'the token is from another issuer'],
  ] as const)
    t.is(await outcome(verify, await sign(first, { ...claims(), ...change })), `unauthorized: ${expected}`)
  t.is(
    await outcome(verify, await sign(first, { ...claims(), aud: ['another', audience] })),
    'jwt alice: write',
  )
})

test('jwt: several keys that fit a token, with and without a key id', async t => {
  const [one, other] = [await createKey('same'), await createKey('same')]
  const { verify } = await start(t, one, other)
  const expected =
    'unauthorized: several keys of the issuer fit the token; its key id must be that of exactly one of them'
  t.is(await outcome(verify, await sign(one, claims())), expected)
  const unnamed = new SignJWT(claims()).setProtectedHeader({ alg: one.algorithm })
  t.is(await outcome(verify, await unnamed.sign(one.privateKey)), expected)
})

test('jwt: keys are read once, and again for a token with an unknown key id', async t => {
  const startedMs = performance.now()
  const { server, verify } = await start(t, first)
  const [old, rotated] = [await sign(first, claims()), await sign(second, claims())]
  for (let times = 0; times < 3; times++) t.is(await outcome(verify, old), 'jwt alice: write')
  t.is(server.reads(), 1)
  const unknown = 'unauthorized: the key of the token is not a key of the issuer'
  for (let times = 0; times < 20; times++) t.is(await outcome(verify, rotated), unknown)
  const pauses = Math.floor((performance.now() - startedMs) / 5000)
  t.true(server.reads() <= 1 + pauses, 'unknown key ids do not read the keys each time')
  server.use(second)
  await untilOutcome(verify, rotated, 'jwt alice: write')
  t.is(await outcome(verify, old), unknown, 'a withdrawn key ends its tokens')
})

test('jwt: keys are read again for a key that replaces one with the same id', async t => {
  const { server, verify } = await start(t, first)
  const successor = await createKey('first')
  const [old, rotated] = [await sign(first, claims()), await sign(successor, claims())]
  t.is(await outcome(verify, old), 'jwt alice: write')
  t.is(await outcome(verify, rotated), 'unauthorized: the signature of the token is wrong')
  server.use(first, successor)
  const several = /^unauthorized: several keys of the issuer fit the token/
  await until(async () => several.test(await outcome(verify, rotated)))
  server.use(successor)
  await untilOutcome(verify, rotated, 'jwt alice: write')
  t.is(await outcome(verify, old), 'unauthorized: the signature of the token is wrong')
})

test('jwt: while the issuer is away, a wrong signature is 401, and an unknown key id 503', async t => {
  const { server, verify } = await start(t, first)
  t.is(await outcome(verify, await sign(first, claims())), 'jwt alice: write')
  server.setAway(true)
  await untilOutcome(
    verify,
    await sign(second, claims()),
    'unavailable: the keys of the token issuer cannot be read, please try again',
  )
  const wrong = await sign(await createKey('first'), claims())
  t.is(await outcome(verify, wrong), 'unauthorized: the signature of the token is wrong')
})

test('jwt: a key that is withdrawn while its token is verified ends this token', async t => {
  const { server, verify } = await start(t, first)
  const [old, rotated] = [await sign(first, claims()), await sign(second, claims())]
  t.is(await outcome(verify, old), 'jwt alice: write')
  server.use(second)
  const send = server.holdBodies()
  // After the pause since the last reading, an unknown key id makes the service read the keys again.
  const answers: Promise<string>[] = []
  await until(() => answers.push(outcome(verify, rotated)) > 0 && server.reads() > 1, { everyMs: 50 })
  // Verified with the old keys, while the body with the new ones is on its way.
  t.is(await outcome(verify, old), 'jwt alice: write')
  send()
  t.is(await answers.at(-1), 'jwt alice: write')
  t.is(await outcome(verify, old), 'unauthorized: the key of the token is not a key of the issuer')
})

test('jwt: keys of another worker are used if they are newer, and end the tokens of withdrawn keys', async t => {
  const { server, verify, useKeys } = await start(t)
  await until(() => server.reads() === 1)
  const keys = [first, second]
  const sets = await Promise.all([[], [first], [second], keys].map(async set => keySet(...set)))
  const tokens = await Promise.all(keys.map(key => sign(key, claims())))
  // Later than any reading of the service itself.
  let newestMs = Number(process.hrtime.bigint()) / 1e6 + 3_600_000
  useKeys({ text: sets[0] ?? '', beganMs: newestMs })
  const step = fc.record({ set: fc.nat(3), age: fc.integer({ min: -1, max: 1 }), token: fc.nat(1) })
  const accepted = 'jwt alice: write'
  let newest = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async steps => {
      const earlier = []
      for (const { set, age, token } of steps) {
        // Its result may be from before or after the change, but it must not outlive the change.
        earlier.push(outcome(verify, tokens[token] ?? ''))
        await null
        useKeys({ text: sets[set] ?? '', beganMs: newestMs + age })
        if (age === 1) {
          newestMs++
          newest = set
        }
        const isValid = sets[newest]?.includes(`"kid":"${keys[token]?.id}"`) ?? false
        t.is((await outcome(verify, tokens[token] ?? '')) === accepted, isValid)
      }
      await Promise.all(earlier)
    }),
    { numRuns: 50 },
  )
})

test('jwt: an issuer that is away is no reason to stop; without its keys the response is 503', async t => {
  const server = await startIssuer(first)
  t.teardown(server.close)
  server.setAway(true)
  const startedMs = performance.now()
  const { verify } = await createJwts(server.settings, log, () => {})
  const token = await sign(first, claims())
  const unavailable = 'unavailable: the keys of the token issuer cannot be read, please try again'
  for (let times = 0; times < 20; times++) t.is(await outcome(verify, token), unavailable)
  t.true(server.reads() <= 2 + (performance.now() - startedMs) / 1000)
  t.is(await outcome(verify, 'a.b.c'), 'unauthorized: the token is not a valid JWT')
  server.setAway(false)
  await untilOutcome(verify, token, 'jwt alice: write')
})

test('jwt: keys that are too long for a key set are not read', async t => {
  const { server, verify } = await start(t, first, { ...second, id: 'x'.repeat(2 ** 20) })
  const token = await sign(first, claims())
  t.regex(await outcome(verify, token), /^unavailable: /)
  server.use(first)
  await untilOutcome(verify, token, 'jwt alice: write')
})

test('jwt: keys that have just been read can be read again at once', async t => {
  const server = await startIssuer(first)
  t.teardown(server.close)
  const keys = await createIssuerKeys(server.settings.jwks, log, () => {})
  await keys.read()
  server.use(second)
  t.true((await keys.read()).text.includes(second.id))
})

test('jwt: a response that is too long is not read to its end', async t => {
  const server = http.createServer((_, response) => {
    response.write('x'.repeat(2 ** 21))
  })
  const port = await listenOnFreePort(server)
  t.teardown(() => server.close())
  const jwks = `http://127.0.0.1:${port}/`
  const ended = new Promise(resolve => server.once('connection', socket => socket.once('close', resolve)))
  const line = await new Promise<string>((resolve, reject) => {
    createJwts({ jwks, issuer, audience }, pino({}, { write: resolve }), () => {}).catch(reject)
  })
  t.is(JSON.parse(line).reason, 'the response has more than 1048576 bytes')
  await ended
})

test('jwt: keys to which another address redirects are not read', async t => {
  const { server } = await start(t, first)
  const redirect = http.createServer((_, response) => {
    response.writeHead(302, { Location: server.settings.jwks }).end()
  })
  t.teardown(() => redirect.close())
  const jwks = `http://127.0.0.1:${await listenOnFreePort(redirect)}`
  const { verify } = await createJwts({ ...server.settings, jwks }, log, () => {})
  t.regex(await outcome(verify, await sign(first, claims())), /^unavailable: /)
})

test('jwt: the log shows the address of the keys without its query', async t => {
  const server = await startIssuer(first)
  t.teardown(server.close)
  server.setAway(true)
  const { jwks } = server.settings
  const line = await new Promise<string>((resolve, reject) => {
    const lines = pino({}, { write: resolve })
    createJwts({ ...server.settings, jwks: `${jwks}?key=secret#part` }, lines, () => {}).catch(reject)
  })
  t.like(JSON.parse(line), { jwks, reason: 'the response has status 503; it must be 200' })
  t.notRegex(line, /secret/)
})

test('jwt: the log says why the issuer cannot be reached', async t => {
  const server = await startIssuer(first)
  server.close()
  const line = await new Promise<string>((resolve, reject) => {
    createJwts(server.settings, pino({}, { write: resolve }), () => {}).catch(reject)
  })
  t.regex(JSON.parse(line).reason, /^connect ECONNREFUSED 127\.0\.0\.1:\d+$/)
})

test('jwt: the log says why the response of the issuer is cut off', async t => {
  const server = http.createServer((_, response) => {
    response.write('{', () => response.destroy())
  })
  const port = await listenOnFreePort(server)
  t.teardown(() => server.close())
  const line = await new Promise<string>((resolve, reject) => {
    const jwks = `http://127.0.0.1:${port}/`
    createJwts({ jwks, issuer, audience }, pino({}, { write: resolve }), () => {}).catch(reject)
  })
  t.regex(JSON.parse(line).reason, /^(other side closed|read ECONNRESET)$/)
})

test('jwt: a weak or invalid key of the issuer makes its tokens invalid', async t => {
  const file = join(folder(t), 'jwks.json')
  const outcomeWith = async (keys: string, token: string) => {
    writeFileSync(file, keys)
    const { verify } = await createJwts({ jwks: pathToFileURL(file).href, issuer, audience }, log, () => {})
    return outcome(verify, token)
  }
  const [strong, weak] = [signedWithRsa(2048, claims()), signedWithRsa(1024, claims())]
  t.is(await outcomeWith(strong.keys, strong.token), 'jwt alice: write')
  const refusal =
    'unauthorized: the key of the token is too weak or invalid; RSA keys need at least 2048 bits'
  t.is(await outcomeWith(weak.keys, weak.token), refusal)
  const offCurve = (await keySet(first)).replace(/"x":"[^"]*"/, '"x":"AA"')
  t.is(await outcomeWith(offCurve, await sign(first, claims())), refusal)
})

test('jwt: keys from a file, which is read again for an unknown key id', async t => {
  const file = join(folder(t), 'jwks.json')
  const settings = { jwks: pathToFileURL(file).href, issuer, audience }
  for (const text of [undefined, '{', '{}', '[]']) {
    if (text !== undefined) writeFileSync(file, text)
    const error = await t.throwsAsync(
      createJwts(settings, log, () => {}),
      { instanceOf: ConfigError },
    )
    t.regex(error.message, /auth\.jwt\.jwks: file:.*jwks\.json cannot be read as a JSON Web Key Set: /)
  }
  writeFileSync(file, await keySet(first))
  const { verify } = await createJwts(settings, log, () => {})
  t.is(await outcome(verify, await sign(first, claims())), 'jwt alice: write')
  writeFileSync(file, await keySet(first, second))
  await untilOutcome(verify, await sign(second, claims()), 'jwt alice: write')
})

test('jwt: keys that are known outlive a file that cannot be read, and a later reading replaces them', async t => {
  const file = join(folder(t), 'jwks.json')
  const settings = { jwks: pathToFileURL(file).href, issuer, audience }
  const last = { text: await keySet(first), beganMs: Number(process.hrtime.bigint()) / 1e6 }
  const [old, current] = [await sign(first, claims()), await sign(second, claims())]
  for (const text of [undefined, '{']) {
    if (text !== undefined) writeFileSync(file, text)
    const { verify } = await createJwts(settings, log, () => {}, last)
    t.is(await outcome(verify, old), 'jwt alice: write')
  }
  writeFileSync(file, await keySet(second))
  const { verify } = await createJwts(settings, log, () => {}, last)
  t.is(await outcome(verify, old), 'unauthorized: the key of the token is not a key of the issuer')
  t.is(await outcome(verify, current), 'jwt alice: write')
})
