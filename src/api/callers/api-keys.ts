// API keys: random tokens, of which the configuration has only the hashes.
import { hash, randomBytes } from 'node:crypto'
import type { ApiKey } from '../../config/auth.ts'
import type { Caller } from './caller.ts'

/** Returns a new token: 256 random bits in base64url. It contains no dot, unlike every JWT. */
export const createToken = (): string => randomBytes(32).toString('base64url')

/**
 * Returns the hash of a token that the configuration stores. A fast hash without salt is enough, because no attacker can try
 * out 2^256 tokens; it would not be enough for a password.
 */
export const hashOf = (token: string): string => hash('sha256', token, 'hex')

/**
 * Returns a function that finds the caller of a token.
 *
 * The look-up takes no constant time, and does not need to: it compares the hash of the token, not the token. The time
 * could reveal at most something about the hashes that are configured. An attacker cannot use it, because a token with
 * a chosen hash cannot be computed.
 */
export function createApiKeys(keys: readonly ApiKey[]): (token: string) => Caller | undefined {
  const callers = new Map(
    keys.map(({ name, sha256, scope }): [string, Caller] => [
      sha256,
      { name, identity: `key ${name}`, scope },
    ]),
  )
  return token => callers.get(hashOf(token))
}
