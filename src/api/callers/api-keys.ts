// API keys: random tokens, of which the configuration has only the hashes.
import { hash, randomBytes } from 'node:crypto'

/** Returns a new token: 256 random bits in base64url. */
export const createToken = (): string => randomBytes(32).toString('base64url')

/**
 * Returns the hash of a token that the configuration stores. A fast hash without salt is enough, because no attacker can try
 * out 2^256 tokens; it would not be enough for a password.
 */
export const hashOf = (token: string): string => hash('sha256', token, 'hex')
