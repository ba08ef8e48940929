// The API as `npm run load` uses it: batches of any size, look-ups by name, and patience while the service is away.
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'

const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 10_000
const REQUEST_TIMEOUT_MS = 90_000

const meta = z.object({
  status: z.number(),
  code: z.string().optional(),
  message: z.string().optional(),
  created: z.number().optional(),
})
const entry = z.object({ id: z.number().optional(), meta })
const body = z.object({ meta, users: z.array(entry).optional(), groups: z.array(entry).optional() })

/** What became of one entry of a batch. */
export type Entry = z.output<typeof entry>
/** Of a batch. */
export interface Outcome {
  readonly entries: readonly Entry[]
  /** How many are new; the others that did not fail were there already. */
  readonly created: number
}
type Answer = z.output<typeof body>
type Kind = 'users' | 'groups'

/** What waiting does not mend. */
const isForGood = (reason: string) => /certificate|not https|bad port/.test(reason)

/** The service does not answer, or is not this service. */
export class AwayError extends Error {
  constructor(reason: string) {
    const advice = /certificate/.test(reason)
      ? 'trust its certificate with NODE_EXTRA_CA_CERTS, or name its http port with --url'
      : /answers/.test(reason)
        ? 'name the service with --url as http://localhost:8000, a data port without a path'
        : 'start it (npm start) or name another with --url, and load again'
    super(`${reason}: ${advice}`)
  }
}

export type Api = ReturnType<typeof createApi>

/** A value that a filter takes as it is: a leading `!` would negate, a leading `\` escape. */
function literal(value: string): string {
  return value.replace(/^[!\\]/, '\\$&')
}

function pauseMs(attempt: number, retryAfter: string | null): number {
  const asked = Number(retryAfter ?? 0) * 1000
  return Math.max(asked || 0, Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt))
}

/**
 * @param patienceMs how long the service may be away
 * @param waiting takes a line that says for what, before each pause
 */
export function createApi(url: string, patienceMs: number, waiting: (line: string) => void) {
  const base = url.replace(/\/+$/, '')

  /** One attempt; a string says why another may do better. */
  async function attempt(path: string, sent?: object): Promise<Response | string> {
    try {
      return await fetch(base + path, {
        signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
        ...(sent !== undefined && {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify(sent),
        }),
      })
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
      if (!(cause instanceof Error)) return String(cause)
      const code = 'code' in cause ? String(cause.code) : cause.name
      return code === 'ERR_SSL_WRONG_VERSION_NUMBER' ? 'it speaks http, not https' : cause.message || code
    }
  }

  /** A string says why another attempt may do better. @throws AwayError where none will */
  async function read(response: Response): Promise<Answer | string> {
    const text = await response.text().catch(() => undefined)
    if (text === undefined) return 'its answer broke off'
    try {
      return body.parse(JSON.parse(text))
    } catch {
      const reason = `it answers ${response.status}, and not as users-api does`
      // As a proxy in front of a service that is away.
      if (response.status >= 500) return reason
      throw new AwayError(`${base}: ${reason}`)
    }
  }

  /** A request that was lost may have been carried out: repeating it then finds that all is there already. */
  async function ask(path: string, sent?: object): Promise<Answer> {
    const giveUpMs = performance.now() + patienceMs
    for (let tries = 0; ; tries++) {
      const response = await attempt(path, sent)
      const answer = typeof response === 'string' ? response : await read(response)
      if (typeof answer !== 'string' && answer.meta.status !== 503) return answer
      const reason = `${base}: ${typeof answer === 'string' ? answer : answer.meta.message}`
      const leftMs = giveUpMs - performance.now()
      if (leftMs <= 0 || isForGood(reason)) throw new AwayError(reason)
      waiting(`waiting up to ${patienceMs / 1000} s for ${reason}`)
      const pause = pauseMs(tries, typeof response === 'string' ? null : response.headers.get('retry-after'))
      await delay(Math.min(pause, leftMs))
    }
  }

  /** Creates in order, with as many requests as the limits of the service ask for. */
  async function create(path: string, kind: Kind, entries: readonly object[]): Promise<Outcome> {
    const answer = await ask(path, { [kind]: entries })
    const made = answer[kind]
    if (answer.meta.status === 200 && made?.length === entries.length)
      return { entries: made, created: answer.meta.created ?? 0 }
    const tooMuch = answer.meta.status === 413 || answer.meta.code === 'limit_exceeded'
    if (!tooMuch || entries.length === 1)
      return { entries: entries.map(() => ({ meta: answer.meta })), created: 0 }
    const half = entries.length >> 1
    const first = await create(path, kind, entries.slice(0, half))
    const second = await create(path, kind, entries.slice(half))
    return { entries: [...first.entries, ...second.entries], created: first.created + second.created }
  }

  return {
    create,

    /** The id of the one with these fields. */
    async find(kind: Kind, fields: Readonly<Record<string, string>>): Promise<number | undefined> {
      const filters = new URLSearchParams()
      for (const [name, value] of Object.entries(fields)) filters.set(name, literal(value))
      const answer = await ask(`/v1/${kind}?${filters}`)
      return answer[kind]?.[0]?.id
    },

    /** @throws AwayError where there is no such service: an address may be mistyped */
    async assertThere(): Promise<void> {
      const { meta } = await ask('/v1/groups?records_per_page=1')
      if (meta.status !== 200) throw new AwayError(`${base}: it answers ${meta.status} (${meta.message})`)
    },
  }
}
