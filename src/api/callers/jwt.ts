// Verifies JWTs (RFC 7519) with the public keys of their issuer, and remembers the verified ones until they expire.
import { errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import type { JwtSettings } from '../../config/auth.ts'
import { ApiError } from '../../core/api-error.ts'
import { shortened } from '../../core/quoted.ts'
import { type Caller, invalidToken, type Scope } from './caller.ts'
import type { IssuerKeyReader, KeySet } from './issuer-keys.ts'

/** Only signatures with a private key. With a shared secret, a public key could be used as the secret. */
const algorithms = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'Ed25519', 'EdDSA'],
]
/** How much the clocks of the issuer and of this machine may differ. */
const CLOCK_TOLERANCE_SECONDS = 30
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
  [errors.JWKSMultipleMatchingKeys.code]:
    'several keys of the issuer fit the token; its key id must be that of exactly one of them',
  [errors.JWSSignatureVerificationFailed.code]: 'the signature of the token is wrong',
}

const claimFaults: Readonly<Record<string, string>> = {
  iss: 'the token is from another issuer',
  aud: 'the token is for another audience',
  nbf: 'the token is not valid yet',
}

/** Returns what is wrong with a token. Any other error is about its key: jose reports a weak one with a TypeError. */
function faultOf(error: unknown): string {
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, reason } = error
    if (reason === 'missing') return `the token has no claim ${claim}`
    return (reason === 'check_failed' ? claimFaults[claim] : undefined) ?? `the claim ${claim} is invalid`
  }
  const fault = error instanceof errors.JOSEError ? faults[error.code] : undefined
  return fault ?? 'the key of the token is too weak or invalid; RSA keys need at least 2048 bits'
}

/**
 * Returns whether newer keys of the issuer can accept the token. An issuer may give a new key the id of the one that it
 * replaces, or no id.
 */
const canBeOutdated = (error: unknown): boolean =>
  error instanceof errors.JWKSNoMatchingKey ||
  error instanceof errors.JWKSMultipleMatchingKeys ||
  error instanceof errors.JWSSignatureVerificationFailed

/** The claim `scope` is a list separated by spaces (RFC 8693, 4.2). */
function scopeIn({ scope }: JWTPayload): Scope | undefined {
  const scopes = typeof scope === 'string' ? scope.split(' ') : []
  if (scopes.includes('users:write')) return 'write'
  return scopes.includes('users:read') ? 'read' : undefined
}

/** A token that has been verified, and the keys that it was verified with: it is not valid with others. */
interface Verified {
  readonly caller: Caller
  readonly keySet: KeySet
  /** As `Date.now()`. */
  readonly untilMs: number
}

/** Returns a function that returns the caller of a JWT, if possible at once. It throws ApiError `unauthorized` or `unavailable`. */
export function createVerify({ issuer, audience }: JwtSettings, issuerKeys: IssuerKeyReader) {
  /** By token, the oldest one first. */
  const verified = new Map<string, Verified>()
  const requirements = {
    algorithms,
    issuer,
    audience,
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
    requiredClaims: ['exp', 'sub'],
  }

  const check = async (token: string, findKey: JWTVerifyGetKey): Promise<JWTPayload> =>
    (await jwtVerify(token, findKey, requirements)).payload

  /** Returns newer keys than `known`. @param error why a token is refused with `known`; thrown if there are no newer keys */
  async function newerKeys(known: KeySet, error: unknown): Promise<KeySet> {
    const newer = await issuerKeys.newerThan(known).catch((cause: unknown) => {
      // The service cannot judge a token without its key. With a key, the token is wrong as long as no newer key is known.
      throw error instanceof errors.JWKSNoMatchingKey ? cause : error
    })
    if (newer === known) throw error
    return newer
  }

  /** Verifies a token with the keys that are known, or else with newer ones. @throws JOSEError, ApiError `unavailable` */
  async function checkWithKeys(token: string) {
    let keySet = issuerKeys.current()
    try {
      const payload = await check(token, async (header, parts) => {
        keySet ??= await issuerKeys.read()
        return keySet.find(header, parts)
      })
      return { payload, keySet }
    } catch (error) {
      if (keySet === undefined || !canBeOutdated(error)) throw error
      const newer = await newerKeys(keySet, error)
      return { payload: await check(token, newer.find), keySet: newer }
    }
  }

  async function verify(token: string): Promise<Caller> {
    const { payload, keySet } = await checkWithKeys(token).catch((error: unknown) => {
      throw error instanceof ApiError ? error : invalidToken(faultOf(error))
    })
    const { sub, exp = 0 } = payload
    // Lone surrogates are the same bytes in UTF-8, so the Idempotency-Keys of different callers could meet.
    if (typeof sub !== 'string' || sub === '' || !sub.isWellFormed())
      throw invalidToken('the claim sub is invalid')
    const caller = { name: shortened(sub), identity: `jwt ${sub}`, scope: scopeIn(payload) }
    const [oldest] = verified.keys()
    if (verified.size >= MAX_VERIFIED && oldest !== undefined) verified.delete(oldest)
    if (keySet !== undefined)
      verified.set(token, { caller, keySet, untilMs: (exp + CLOCK_TOLERANCE_SECONDS) * 1000 })
    return caller
  }

  return (token: string): Caller | Promise<Caller> => {
    const known = verified.get(token)
    if (known !== undefined && known.keySet === issuerKeys.current() && Date.now() < known.untilMs)
      return known.caller
    return verify(token)
  }
}
