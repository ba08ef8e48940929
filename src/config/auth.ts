// The settings of the API's callers: API keys, and the issuer of JWTs.
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import * as z from 'zod'
import { messageOf } from './faults.ts'
import { root } from './root.ts'

const apiKey = z.strictObject({
  /** Several keys can have the same name: they belong to the same caller. */
  name: z
    .string()
    .regex(
      /^[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}$/,
      'must be 1 to 100 letters, digits, ".", "-", "_" and "@", and start with a letter or a digit',
    ),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits in lower case; `npm run key` prints them'),
  scope: z.enum(['read', 'write']),
})
/** An API key as it is configured. The token itself is not stored anywhere, only its SHA-256. */
export type ApiKey = Readonly<z.output<typeof apiKey>>

/** @returns an error message if these are not the name and the scope of an API key */
export function apiKeyFault(name: string, scope: string): string | undefined {
  const { error } = apiKey.omit({ sha256: true }).safeParse({ name, scope }, { error: messageOf })
  const [issue] = error?.issues ?? []
  return issue && `the ${issue.path.join()} ${issue.message}`
}

/** A URL, or the path of a file, which becomes a `file:` URL. */
const fileOrUrl = z
  .string()
  .min(1)
  .transform(text => (/^\w+:\/\//.test(text) ? text : pathToFileURL(resolve(root, text)).href))
  .refine(url => URL.canParse(url) && /^(?:https?|file):$/.test(new URL(url).protocol), {
    error: 'must be the path of a file, or a URL that starts with https:// or http://',
    abort: true,
  })
  // Node's fetch refuses such a URL, with an error that repeats them.
  .refine(url => new URL(url).username === '' && new URL(url).password === '', {
    error: 'must not contain a user name or a password: the keys of an issuer are public',
  })

const jwt = z.strictObject({ jwks: fileOrUrl, issuer: z.string().min(1), audience: z.string().min(1) })
/** Which JWTs are accepted; `jwks` is a URL (`https:`, `http:` or `file:`). */
export type JwtSettings = Readonly<z.output<typeof jwt>>

export const authSchema = z.strictObject({
  keys: z.array(apiKey).superRefine((keys, context) => {
    const hashes = keys.map(({ sha256 }) => sha256)
    for (const [index, sha256] of hashes.entries())
      if (hashes.indexOf(sha256) < index)
        context.addIssue({
          code: 'custom',
          path: [index, 'sha256'],
          message: 'is already the hash of another key in the list; each key must have its own token',
        })
  }),
  jwt: jwt.nullable(),
})
export type Auth = Readonly<z.output<typeof authSchema>>

/** Whether the API is open only to known callers. */
export const isAuthOn = ({ keys, jwt }: Auth): boolean => keys.length > 0 || jwt !== null
