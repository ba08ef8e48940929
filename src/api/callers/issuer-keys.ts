// The public keys of the JWT issuer (JSON Web Key Set, RFC 7517): reads them from a file or a URL at the start, at intervals,
// and for a token that no known key verifies.
import { readFile } from 'node:fs/promises'
import { createLocalJWKSet, type JWTVerifyGetKey } from 'jose'
import { ConfigError } from '../../config/config.ts'
import { unavailable } from '../../core/api-error.ts'
import { fetchCauseOf, reasonOf } from '../../core/error-reason.ts'
import type { Log } from '../../core/log.ts'
import type { IssuerKeys } from '../../core/messages.ts'

/** The time between two readings. A key that the issuer has withdrawn is rejected after the next reading that succeeds. */
const REFRESH_MS = 600_000
/** Minimum time between a reading of the keys and the next one because of a token. */
const TOKEN_PAUSE_MS = 5000
/** Minimum time between an attempt to read the keys that fails and the next one. */
const RETRY_PAUSE_MS = 1000
const READ_TIMEOUT_MS = 5000
/** A set of keys is a few kilobytes long. All workers get it. */
const MAX_BYTES = 2 ** 20

/** The keys of a reading. Readings that find the same text share one object. */
export interface KeySet {
  readonly text: string
  /** @throws JOSEError if no key fits, or several do */
  readonly find: JWTVerifyGetKey
}

export type IssuerKeyReader = Awaited<ReturnType<typeof createIssuerKeys>>

const steadyMs = (): number => Number(process.hrtime.bigint()) / 1e6

/** Returns a URL without its query, which can contain a secret. */
function shown(url: string): string {
  const { protocol, origin, pathname } = new URL(url)
  return (protocol === 'file:' ? 'file://' : origin) + pathname
}

/** @throws Error if the response has another status than 200, or is too long: then the rest of it is not read */
async function fetchText(url: string): Promise<string> {
  const { status, body } = await fetch(url, {
    headers: { Accept: 'application/json, application/jwk-set+json' },
    redirect: 'manual',
    signal: AbortSignal.timeout(READ_TIMEOUT_MS),
  })
  if (status !== 200) {
    await body?.cancel()
    throw new Error(`the response has status ${status}; it must be 200`)
  }
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > MAX_BYTES) throw new Error(`the response has more than ${MAX_BYTES} bytes`)
    chunks.push(chunk)
  }
  return new TextDecoder().decode(Buffer.concat(chunks))
}

/** @param source a URL (`https:`, `http:` or `file:`) @throws Error if it cannot be read */
const readText = (source: string): Promise<string> =>
  source.startsWith('file:')
    ? readFile(new URL(source), 'utf8')
    : fetchText(source).catch((error: unknown) => {
        throw fetchCauseOf(error)
      })

/**
 * Starts to read the keys.
 * @param source as `auth.jwt.jwks`
 * @param report is called with the result of each reading
 * @param last the keys that another worker has read last
 * @throws ConfigError if the keys are in a file that cannot be read, and none are known. An issuer at a URL can be away.
 */
export async function createIssuerKeys(
  source: string,
  log: Log,
  report: (keys: IssuerKeys) => void,
  last?: IssuerKeys,
) {
  /** While the issuer is away, the keys that were read last stay valid. */
  let current: KeySet | undefined
  let reading: Promise<KeySet> | undefined
  /** When the reading of these keys began. Times are values of `steadyMs`. */
  let beganMs = 0
  /** Before this time, an attempt to read the keys fails at once. */
  let nextReadMs = 0

  /** Uses the keys of a reading, unless a later reading is known. @throws Error if they are no JSON Web Key Set */
  function use(keys: IssuerKeys): KeySet {
    if (current !== undefined && keys.beganMs <= beganMs) return current
    if (keys.text !== current?.text)
      current = { text: keys.text, find: createLocalJWKSet(JSON.parse(keys.text)) }
    beganMs = keys.beganMs
    return current
  }

  async function readNow(): Promise<KeySet> {
    const nowMs = steadyMs()
    // An issuer that is away is not asked again for each request.
    if (nowMs < nextReadMs) throw new Error('the last attempt to read the keys has just failed')
    nextReadMs = nowMs + RETRY_PAUSE_MS
    const keys = { text: await readText(source), beganMs: nowMs }
    const used = use(keys)
    nextReadMs = nowMs
    report(keys)
    return used
  }

  /** Concurrent calls share one reading. @throws Error if the keys cannot be read */
  function read(): Promise<KeySet> {
    reading ??= readNow().finally(() => {
      reading = undefined
    })
    return reading
  }

  const readForRequest = (): Promise<KeySet> =>
    read().catch((error: unknown) => {
      throw unavailable(error, 'the keys of the token issuer cannot be read, please try again')
    })

  const refresh = () =>
    read().catch((error: unknown) => {
      log.warn({ reason: reasonOf(error), jwks: shown(source) }, 'the keys of the JWT issuer cannot be read')
    })

  if (last !== undefined) use(last)
  if (!source.startsWith('file:')) void refresh()
  // A file that has become unreadable must not keep a worker from replacing another one.
  else if (last !== undefined) await refresh()
  else
    await read().catch((error: unknown) => {
      throw new ConfigError([
        `auth.jwt.jwks: ${source} cannot be read as a JSON Web Key Set: ${reasonOf(error)}`,
      ])
    })
  setInterval(refresh, REFRESH_MS).unref()

  return {
    /** Undefined until keys are known. */
    current: (): KeySet | undefined => current,
    use,
    /** Reads the keys. @throws ApiError `unavailable` */
    read: readForRequest,
    /**
     * Returns newer keys, because none of `known` verifies a token. If `known` was read a moment ago, it is returned.
     * @throws ApiError `unavailable`
     */
    async newerThan(known: KeySet): Promise<KeySet> {
      if (current !== undefined && current !== known) return current
      return steadyMs() - beganMs < TOKEN_PAUSE_MS ? known : readForRequest()
    },
  }
}
