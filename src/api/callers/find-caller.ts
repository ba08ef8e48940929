// Finds the caller of a token, among the API keys and the JWTs that are configured.
import { type Auth, isAuthOn } from '../../config/auth.ts'
import type { Log } from '../../core/log.ts'
import { hashOf } from './api-keys.ts'
import { type Caller, invalidToken } from './caller.ts'
import { createVerifyJwt } from './jwt.ts'

/** Returns the caller of a token, if possible at once. It throws an ApiError, `unauthorized` or `unavailable`. */
export type FindCaller = (token: string) => Caller | Promise<Caller>

/**
 * @returns undefined if the API is open
 * @throws ConfigError if the file of the JWT issuer's keys cannot be read
 */
export async function createFindCaller(auth: Auth, log: Log): Promise<FindCaller | undefined> {
  if (!isAuthOn(auth)) return undefined
  const callers = new Map<string, Caller>()
  for (const { name, sha256, scope } of auth.keys)
    callers.set(sha256, { name, identity: `key ${name}`, scope })
  const verifyJwt = auth.jwt === null ? undefined : await createVerifyJwt(auth.jwt, log)
  return token => {
    // The look-up takes no constant time, and needs none: it compares hashes, and a token with a chosen hash cannot be
    // computed. It comes first, because an API key that `npm run key` has not made can contain dots like a JWT.
    const caller = callers.get(hashOf(token))
    if (caller !== undefined) return caller
    if (verifyJwt !== undefined && token.includes('.')) return verifyJwt(token)
    throw invalidToken('the token is not known')
  }
}
