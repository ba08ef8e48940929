// Finds the caller of a token, among the API keys and the JWTs that are configured.
import { type Auth, isAuthOn } from '../../config/auth.ts'
import type { Log } from '../../core/log.ts'
import type { DesiredState, IssuerKeys } from '../../core/messages.ts'
import { hashOf } from './api-keys.ts'
import { type Caller, invalidToken } from './caller.ts'
import { createIssuerKeys } from './issuer-keys.ts'
import { createVerify } from './jwt.ts'

/** Returns the caller of a token, at once if it is known. It throws an ApiError, `unauthorized` or `unavailable`. */
export type FindCaller = (token: string) => Caller | Promise<Caller>

/**
 * @param report is called with the keys of the JWT issuer whenever they have been read
 * @param last the keys that other workers have read last, by source
 * @returns undefined if the API is open
 * @throws ConfigError if the file of the JWT issuer's keys cannot be read, and none are known
 */
export async function createCallers(
  auth: Auth,
  log: Log,
  report: (source: string, keys: IssuerKeys) => void,
  last: DesiredState['issuerKeys'] = {},
) {
  if (!isAuthOn(auth)) return undefined
  const callers = new Map<string, Caller>()
  for (const { name, sha256, scope } of auth.keys)
    callers.set(sha256, { name, identity: `key ${name}`, scope })
  const { jwt } = auth
  const issuer =
    jwt && (await createIssuerKeys(jwt.jwks, log, keys => report(jwt.jwks, keys), last[jwt.jwks]))
  const verify = jwt && issuer && createVerify(jwt, issuer)

  const find: FindCaller = token => {
    // The time of the look-up depends on the token. It tells nothing: the look-up compares hashes, and a token with a chosen
    // hash cannot be computed. It comes first, because an API key that `npm run key` has not made can contain dots like a JWT.
    const caller = callers.get(hashOf(token))
    if (caller !== undefined) return caller
    if (verify !== null && token.includes('.')) return verify(token)
    throw invalidToken('the token is not known')
  }

  return {
    find,
    /** Uses the keys of the JWT issuer that another worker has read, if they are newer. @param keys by source */
    useIssuerKeys(keys: DesiredState['issuerKeys'] = {}): void {
      const own = jwt === null ? undefined : keys[jwt.jwks]
      if (own !== undefined) issuer?.use(own)
    },
  }
}
