// The API client of `npm run load`. It splits batches that exceed a limit, finds records by name, and retries while
// the service is unavailable.
import * as z from 'zod'
import { fetchCauseOf, reasonOf } from '../../core/error-reason.ts'
import { exitCodes, FatalError } from '../../core/exit-codes.ts'
import { retry } from '../../core/retry.ts'

const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 10_000
const REQUEST_TIMEOUT_MS = 90_000
/** Without patience, the response to a read still gets this time. */
const MIN_READ_TIMEOUT_MS = 1000

const meta = z.object({
  status: z.number(),
  code: z.string().optional(),
  message: z.string().default('the service gave no reason'),
  /** In the response to a batch: the number of new records. */
  created: z.number().default(0),
})
const entry = z.object({ id: z.number().optional(), meta })
const body = z.object({ meta, users: z.array(entry).optional(), groups: z.array(entry).optional() })

/** The result of one entry of a batch. */
export type Entry = z.output<typeof entry>
interface BatchResult {
  readonly entries: readonly Entry[]
  /** The number of new records. The other entries that did not fail existed before. */
  readonly created: number
}
type ResponseBody = z.output<typeof body>
type Kind = 'users' | 'groups'

/** Answers of an unavailable service, of a proxy in front of it, and of a limit of requests. */
const transientStatuses: readonly number[] = [429, 502, 503, 504]

/** A failure of a request that a retry can remove. */
class TransientError extends Error {}

/** The service does not respond, or the response is not from this service. */
const unavailable = (reason: string): FatalError =>
  new FatalError(
    exitCodes.unavailable,
    `${reason}: start the service (npm start), or set --url to the URL of its data port, such as http://localhost:8000`,
  )

/** The service requires a token with the scope `write`, and there is none or it does not accept it. */
const notAllowed = (reason: string): FatalError =>
  new FatalError(
    exitCodes.notAllowed,
    `${reason}: set USERS_API_TOKEN to an API key or a JWT with the scope write, then load again`,
  )

export type Api = ReturnType<typeof createApi>

/**
 * Escapes a value for a filter: an unescaped leading `!` would negate it, and a leading `\` is the escape character.
 */
function literal(value: string): string {
  return value.replace(/^[!\\]/, '\\$&')
}

/**
 * @param url the base URL of a data port
 * @param timeoutMs how many milliseconds to retry a request while the service is unavailable
 * @param onWait called before each pause with a line that gives the reason
 * @param token the API key or the JWT; undefined for an open API
 */
export function createApi(url: string, timeoutMs: number, onWait: (line: string) => void, token?: string) {
  const base = url.replace(/\/+$/, '')
  const readTimeoutMs = Math.min(REQUEST_TIMEOUT_MS, Math.max(MIN_READ_TIMEOUT_MS, timeoutMs))
  const authorization = token === undefined ? {} : { Authorization: `Bearer ${token}` }

  const failure = (reason: string, isTransient: boolean): Error =>
    isTransient ? new TransientError(`${base}: ${reason}`) : unavailable(`${base}: ${reason}`)

  /** Sends a request once. @throws TransientError if a retry can succeed, else FatalError */
  async function attempt(path: string, sent?: object): Promise<ResponseBody> {
    const response = await fetch(base + path, {
      signal: AbortSignal.timeout(sent === undefined ? readTimeoutMs : REQUEST_TIMEOUT_MS),
      // A redirected POST can become a GET, and another origin does not get the token.
      redirect: 'manual',
      headers: authorization,
      ...(sent !== undefined && {
        method: 'POST',
        headers: { ...authorization, 'Content-Type': 'application/json' },
        body: JSON.stringify(sent),
      }),
    }).catch((error: unknown) => {
      const reason = reasonOf(fetchCauseOf(error))
      throw failure(reason, !/certificate|bad port|wrong version number/.test(reason))
    })
    const target = response.headers.get('location')
    if (response.status >= 300 && response.status < 400 && target !== null)
      throw failure(`redirects to ${target}`, false)
    const json: unknown = await response.json().catch((error: unknown) => {
      if (!(error instanceof SyntaxError)) throw failure('the response was cut off', true)
    })
    const answer = body.safeParse(json).data
    // A proxy in front of an unavailable service responds with 5xx, and one that limits requests with 429.
    if (answer === undefined)
      throw failure(
        `responds with ${response.status}, but not as users-api does`,
        response.status >= 500 || response.status === 429,
      )
    const { status, message } = answer.meta
    if (status === 401 || status === 403) throw notAllowed(`${base}: ${message}`)
    if (transientStatuses.includes(status)) throw failure(message, true)
    return answer
  }

  /**
   * Sends a request and retries while the service is unavailable. A POST can be retried although the service may have
   * carried out the lost request: the retry then finds the records that the first one created.
   * @throws FatalError if it stays unavailable, or does not accept the token
   */
  const request = (path: string, sent?: object): Promise<ResponseBody> =>
    retry(() => attempt(path, sent), {
      timeoutMs,
      pauseMs: attempts => Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempts - 1)),
      isTransient: error => error instanceof TransientError,
      beforePause: error => onWait(`waiting up to ${timeoutMs / 1000} s for ${reasonOf(error)}`),
    }).catch((error: unknown) => {
      throw error instanceof TransientError ? unavailable(error.message) : error
    })

  /** Creates records in order. Batches that exceed a limit of the service are halved until they fit. */
  async function create(path: string, kind: Kind, entries: readonly object[]): Promise<BatchResult> {
    const response = await request(path, { [kind]: entries })
    const results = response[kind]
    if (response.meta.status === 200 && results?.length === entries.length)
      return { entries: results, created: response.meta.created }
    const isTooLarge = response.meta.status === 413 || response.meta.code === 'limit_exceeded'
    if (!isTooLarge || entries.length === 1)
      return { entries: entries.map(() => ({ meta: response.meta })), created: 0 }
    const half = entries.length >> 1
    const first = await create(path, kind, entries.slice(0, half))
    const second = await create(path, kind, entries.slice(half))
    return { entries: [...first.entries, ...second.entries], created: first.created + second.created }
  }

  return {
    create,

    /** Finds the record with these fields. @returns its id, or the reason why it was not found */
    async find(kind: Kind, fields: Readonly<Record<string, string>>): Promise<number | string> {
      const filters = new URLSearchParams()
      for (const [name, value] of Object.entries(fields)) filters.set(name, literal(value))
      const response = await request(`/v1/${kind}?${filters}`)
      if (response.meta.status !== 200) return response.meta.message
      return response[kind]?.[0]?.id ?? 'it was deleted during the import'
    },

    /**
     * Checks that the URL is that of the service.
     * @throws FatalError if it is not, for example if it is mistyped
     */
    async assertReachable(): Promise<void> {
      const { meta } = await request('/v1/groups?records_per_page=1')
      if (meta.status !== 200) throw failure(`responds with ${meta.status} (${meta.message})`, false)
    },
  }
}
