// Verifies JWTs (RFC 7519) with the public keys of their issuer, and remembers the verified ones until they expire.
import { readFile } from 'node:fs/promises'
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type FetchImplementation,
  type JWTPayload,
  jwtVerify,
} from 'jose'
import type { JwtSettings } from '../../config/auth.ts'
import { ConfigError } from '../../config/config.ts'
import { shortened, unavailable } from '../../core/api-error.ts'
import { reasonOf } from '../../core/error-reason.ts'
import type { Log } from '../../core/log.ts'
import { type Caller, invalidToken, type Scope } from './caller.ts'

/** Only signatures with a private key. With a shared secret, a public key could be used as the secret. */
const algorithms = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'Ed25519', 'EdDSA'],
]
/** How much the clocks of the issuer and of this machine may differ. */
const CLOCK_TOLERANCE_SECONDS = 30
/** A key that the issuer has withdrawn is rejected after this time at the latest. */
const REFRESH_MS = 600_000
/** Minimum time between a read of the keys and the next one because of an unknown key id. */
const UNKNOWN_KEY_PAUSE_MS = 5000
/** Minimum time between two attempts to read the keys. */
const RETRY_PAUSE_MS = 1000
const READ_TIMEOUT_MS = 5000
/** Only valid tokens are remembered, each of at most `limits.headerBytes`. */
const MAX_VERIFIED = 1000

const faults: Readonly<Record<string, string>> = {
  [errors.JWTExpired.code]: 'the token has expired',
  [errors.JOSEAlgNotAllowed.code]:
    `the algorithm of the token is not allowed; allowed: ${algorithms.join(', ')}`,
  [errors.JOSENotSupported.code]: 'the token uses an extension that is not supported',
  [errors.JWSInvalid.code]: 'the token is not a valid JWT',
  [errors.JWTInvalid.code]: 'the token is not a valid JWT',
  [errors.JWKSNoMatchingKey.code]: 'the key of the token is not a key of the issuer',
  [errors.JWKSMultipleMatchingKeys.code]: 'the token does not name its key, and the issuer has several',
  [errors.JWSSignatureVerificationFailed.code]: 'the signature of the token is wrong',
}

const claimFaults: Readonly<Record<string, string>> = {
  iss: 'the token is from another issuer',
  aud: 'the token is for another audience',
  nbf: 'the token is not valid yet',
}

/** Returns what is wrong with the token; undefined if the keys of the issuer cannot be read. */
function tokenFault(error: unknown): string | undefined {
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, reason } = error
    if (reason === 'missing') return `the token has no claim ${claim}`
    return (reason === 'check_failed' ? claimFaults[claim] : undefined) ?? `the claim ${claim} is invalid`
  }
  return error instanceof errors.JOSEError ? faults[error.code] : undefined
}

/** The claim `scope` is a list separated by spaces (RFC 8693, 4.2). */
function scopeIn({ scope }: JWTPayload): Scope | undefined {
  const scopes = typeof scope === 'string' ? scope.split(' ') : []
  if (scopes.includes('users:write')) return 'write'
  return scopes.includes('users:read') ? 'read' : undefined
}

/**
 * Returns a function that verifies a JWT. It throws an ApiError, `unauthorized` or `unavailable`.
 * @throws ConfigError if the keys are in a file that cannot be read. An issuer at a URL can be away.
 */
export async function createVerifyJwt(
  { jwks, issuer, audience }: JwtSettings,
  log: Log,
): Promise<(token: string) => Caller | Promise<Caller>> {
  /** By token, the oldest one first. `untilMs` is as `Date.now()`. */
  const verified = new Map<string, { readonly caller: Caller; readonly untilMs: number }>()
  let nextReadMs = 0

  const readKeys: FetchImplementation = async (url, options) => {
    // An issuer that is away is not asked again for each request.
    if (performance.now() < nextReadMs) throw new Error('the last attempt to read the keys has just failed')
    nextReadMs = performance.now() + RETRY_PAUSE_MS
    const response = url.startsWith('file:')
      ? new Response(await readFile(new URL(url)))
      : await fetch(url, options)
    // The keys may have changed: every token is verified again.
    verified.clear()
    return response
  }
  const keys = createRemoteJWKSet(new URL(jwks), {
    [customFetch]: readKeys,
    timeoutDuration: READ_TIMEOUT_MS,
    cooldownDuration: UNKNOWN_KEY_PAUSE_MS,
    // While the issuer is away, the keys that were read last stay valid.
    cacheMaxAge: Infinity,
  })
  const refresh = () =>
    keys.reload().catch((error: unknown) => {
      log.warn({ reason: reasonOf(error), jwks }, 'the keys of the JWT issuer cannot be read')
    })

  if (jwks.startsWith('file:'))
    await keys.reload().catch((error: unknown) => {
      throw new ConfigError([
        `auth.jwt.jwks: ${jwks} cannot be read as a JSON Web Key Set: ${reasonOf(error)}`,
      ])
    })
  else void refresh()
  setInterval(refresh, REFRESH_MS).unref()

  const requirements = {
    algorithms,
    issuer,
    audience,
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
    requiredClaims: ['exp', 'sub'],
  }

  async function verify(token: string): Promise<Caller> {
    const { payload } = await jwtVerify(token, keys, requirements).catch((error: unknown) => {
      const fault = tokenFault(error)
      throw fault === undefined
        ? unavailable(error, 'the keys of the token issuer cannot be read, please try again')
        : invalidToken(fault)
    })
    const { sub, exp = 0 } = payload
    if (typeof sub !== 'string') throw invalidToken('the claim sub is invalid')
    const caller = { name: shortened(sub), identity: `jwt ${sub}`, scope: scopeIn(payload) }
    const [oldest] = verified.keys()
    if (verified.size >= MAX_VERIFIED && oldest !== undefined) verified.delete(oldest)
    verified.set(token, { caller, untilMs: (exp + CLOCK_TOLERANCE_SECONDS) * 1000 })
    return caller
  }

  return token => {
    const known = verified.get(token)
    if (known !== undefined && Date.now() < known.untilMs) return known.caller
    return verify(token)
  }
}
