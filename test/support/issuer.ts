// An issuer of JWTs: signs them, and serves its public keys over HTTP as a JSON Web Key Set.
import { createHash, createHmac, sign as cryptoSign, generateKeyPairSync } from 'node:crypto'
import http from 'node:http'
import { type CryptoKey, exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { createGate } from './gate.ts'
import { listenOnFreePort } from './ports.ts'

export const issuer = 'https://issuer.test/'
export const audience = 'users-api'

const base64url = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const now = () => Math.floor(Date.now() / 1000)

/** Claims that the service accepts. @param scope the claim `scope` */
export const claims = (scope = 'users:write'): JWTPayload => ({
  iss: issuer,
  aud: audience,
  sub: 'alice',
  scope,
  exp: now() + 3600,
})

/** Claims with a time in seconds from now. */
export const claimsAt = (claim: 'exp' | 'nbf', seconds: number): JWTPayload => ({
  ...claims(),
  [claim]: now() + seconds,
})

export interface Key {
  readonly id: string
  readonly algorithm: string
  readonly privateKey: CryptoKey
  readonly publicKey: CryptoKey
}

/** Creates a key pair. @param algorithm of JWS, such as ES256 */
export async function createKey(id: string, algorithm = 'ES256'): Promise<Key> {
  return { id, algorithm, ...(await generateKeyPair(algorithm, { extractable: true })) }
}

/** @param payload a claim that is undefined is missing */
export const sign = ({ id, algorithm, privateKey }: Key, payload: Record<string, unknown>): Promise<string> =>
  new SignJWT(payload).setProtectedHeader({ alg: algorithm, kid: id }).sign(privateKey)

/** Returns the JSON Web Key Set of these keys. */
export async function keySet(...keys: Key[]): Promise<string> {
  const jwks = keys.map(async ({ id, publicKey }) => ({ ...(await exportJWK(publicKey)), kid: id }))
  return JSON.stringify({ keys: await Promise.all(jwks) })
}

/** A JWT with a changed payload and the signature of the original one. */
export function tampered(token: string): string {
  const [head, , signature] = token.split('.')
  return `${head}.${base64url({ ...claims(), sub: 'mallory' })}.${signature}`
}

/** A JWT that is signed with a new key, and the JSON Web Key Set with this key. @param bits the length of the RSA key */
export function signedWithRsa(bits: number, payload: JWTPayload): { token: string; keys: string } {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: bits })
  const text = `${base64url({ alg: 'RS256' })}.${base64url(payload)}`
  const signature = cryptoSign('sha256', Buffer.from(text), privateKey).toString('base64url')
  return {
    token: `${text}.${signature}`,
    keys: JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] }),
  }
}

/** A JWT without a signature. */
export const unsigned = (payload: JWTPayload): string =>
  `${base64url({ alg: 'none' })}.${base64url(payload)}.`

/** A JWT that is signed with the public key as the secret of HMAC. */
export async function signedWithPublicKey({ id, publicKey }: Key, payload: JWTPayload): Promise<string> {
  const text = `${base64url({ alg: 'HS256', kid: id })}.${base64url(payload)}`
  const signature = createHmac('sha256', await exportSPKI(publicKey))
    .update(text)
    .digest('base64url')
  return `${text}.${signature}`
}

/** Returns the entry of an API key in the configuration. */
export const apiKey = (name: string, scope: 'read' | 'write', token: string) => ({
  name,
  scope,
  sha256: createHash('sha256').update(token).digest('hex'),
})

/** Serves the public keys. `keys` can be changed while it runs. */
export async function startIssuer(...initial: Key[]) {
  let keys = initial
  let reads = 0
  let isAway = false
  let held = Promise.resolve()
  let heldBodies = Promise.resolve()
  const server = http.createServer(async (_, response) => {
    reads++
    await held
    if (isAway) return response.writeHead(503).end()
    const body = await keySet(...keys)
    response.flushHeaders()
    await heldBodies
    return response.end(body)
  })
  const port = await listenOnFreePort(server)
  return {
    settings: { jwks: `http://127.0.0.1:${port}/jwks.json`, issuer, audience },
    /** The number of requests so far. */
    reads: () => reads,
    use(...next: Key[]): void {
      keys = next
    },
    setAway(away: boolean): void {
      isAway = away
    },
    /** Holds back all responses. @returns a function that sends them */
    hold(): () => void {
      const { opened, open } = createGate()
      held = opened
      return open
    },
    /** Holds back the bodies of all responses, but not their headers. @returns a function that sends them */
    holdBodies(): () => void {
      const { opened, open } = createGate()
      heldBodies = opened
      return open
    },
    close: () => server.close(),
  }
}
