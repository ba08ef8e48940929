// Clients that write and read all the time, remember what was acknowledged, and hold the service to it.
import assert from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { type Answer, type Client, createClient } from '../support/http.ts'

interface LedgerOptions {
  readonly url: string
  readonly clients: number
  /** No request may take longer. */
  readonly longestMs: number
}

interface Tally {
  acknowledged: number
  /** Answered 503, in JSON, with Retry-After. */
  unavailable: number
  /** The connection ended without a byte of an answer. */
  lost: number
  /** There was nobody to connect to. */
  refused: number
  slowestMs: number
  /** As `performance.now()`: when the last request that was not acknowledged was over. */
  lastRefusedMs: number
}

/** A user of one client; its last name is a number that only that client raises. */
interface Own {
  readonly api: Client
  readonly id: number
  acknowledged: number
  attempted: number
}

const BETWEEN_ATTEMPTS_MS = 20

let names = 0
const newName = () => `${process.pid} ${++names}`

/** @throws Error where `answer` is no 503 as the contract wants it */
function assertUnavailable(answer: Answer): void {
  assert.equal(answer.status, 503, answer.text)
  assert.equal(answer.body.meta.code, 'unavailable', answer.text)
  assert.match(answer.headers['retry-after'] ?? '', /^\d+$/)
}

/** Starts the clients at once; they stop at the first answer that breaks a promise. */
export async function startLedger({ url, clients, longestMs }: LedgerOptions) {
  const tally: Tally = {
    acknowledged: 0,
    unavailable: 0,
    lost: 0,
    refused: 0,
    slowestMs: 0,
    lastRefusedMs: 0,
  }
  const created = new Map<number, string>()
  const deleted = new Set<number>()
  const owned: Own[] = []
  const waiting: { holds(): boolean; resolve(): void }[] = []
  let stopped = false

  /** @returns the answer of a request that was acknowledged, undefined for one that was not */
  async function ask(send: () => Promise<Answer>): Promise<Answer | undefined> {
    const beganMs = performance.now()
    const answer = await send().catch(async (error: Error) => {
      const refused = error.message.includes('ECONNREFUSED')
      // Half an answer is worse than none.
      assert.match(error.message, refused ? /./ : /socket hang up|ECONNRESET|EPIPE/)
      tally[refused ? 'refused' : 'lost']++
      if (refused) await delay(BETWEEN_ATTEMPTS_MS)
      return undefined
    })
    const endedMs = performance.now()
    tally.slowestMs = Math.max(tally.slowestMs, endedMs - beganMs)
    assert.ok(endedMs - beganMs < longestMs, `${Math.round(endedMs - beganMs)} ms for an answer`)
    if (answer?.status === 200) tally.acknowledged++
    else {
      tally.lastRefusedMs = endedMs
      if (answer !== undefined) {
        assertUnavailable(answer)
        tally.unavailable++
      }
    }
    for (const one of waiting) if (one.holds()) one.resolve()
    return answer?.status === 200 ? answer : undefined
  }

  const acts = [
    async (own: Own) => {
      const last_name = String(++own.attempted)
      if (await ask(() => own.api.patch(`/v1/users/${own.id}`, { last_name })))
        own.acknowledged = own.attempted
    },
    async (own: Own) => {
      const oldest = own.acknowledged
      const answer = await ask(() => own.api.get(`/v1/users/${own.id}?include=groups`))
      if (answer === undefined) return
      const seen = Number(answer.body.last_name)
      assert.ok(seen >= oldest && seen <= own.attempted, `${seen} instead of ${oldest} to ${own.attempted}`)
    },
    async ({ api }: Own) => {
      const last_name = newName()
      const answer = await ask(() => api.post('/v1/users', { first_name: 'Made', last_name }))
      if (answer) created.set(Number(answer.body.id), last_name)
    },
    async ({ api }: Own) => {
      const users = Array.from({ length: 5 }, () => ({ first_name: 'Batch', last_name: newName() }))
      const answer = await ask(() => api.post('/v1/users', { users }))
      for (const { id, last_name = '' } of answer?.body.users ?? []) created.set(Number(id), last_name)
    },
    async ({ api }: Own) => {
      const [id] = created.keys()
      if (id === undefined) return
      // Nobody else is to delete it; whether it is there after a refusal is not known.
      created.delete(id)
      if (await ask(() => api.delete(`/v1/users/${id}`))) deleted.add(id)
    },
    async ({ api }: Own) => void (await ask(() => api.get('/v1/users?records_per_page=10&include=groups'))),
  ]

  async function run(own: Own): Promise<void> {
    while (!stopped) {
      const act = acts[Math.floor(Math.random() * acts.length)]
      await act?.(own)
    }
  }

  const apis = Array.from({ length: clients }, () => createClient(url))
  for (const api of apis) {
    const id = await api.create('/v1/users', { first_name: newName(), last_name: '0' })
    owned.push({ api, id, acknowledged: 0, attempted: 0 })
  }
  const running = owned.map(own =>
    run(own).finally(() => {
      stopped = true
      for (const one of waiting) one.resolve()
    }),
  )
  // A failure is thrown by `stop`, which everyone comes to.
  for (const one of running) one.catch(() => {})

  return {
    tally,
    /** Resolves once so many more requests were acknowledged, or refused. */
    until(kind: 'acknowledged' | 'unavailable', more: number): Promise<void> {
      const goal = tally[kind] + more
      return new Promise(resolve => {
        if (stopped) resolve()
        else waiting.push({ holds: () => tally[kind] >= goal, resolve })
      })
    },
    /** Ends the clients. @throws Error about the first broken promise */
    async stop(): Promise<void> {
      stopped = true
      await Promise.all(running)
      for (const api of apis) api.close()
    },
    /** Looks every acknowledged write up. @returns how many there were. @throws Error about one that is missing */
    async verify(): Promise<number> {
      const api = createClient(url)
      for (const { id, acknowledged, attempted } of owned) {
        const seen = Number((await api.get(`/v1/users/${id}`)).body.last_name)
        assert.ok(seen >= acknowledged && seen <= attempted, `user ${id} has ${seen}, not ${acknowledged}`)
      }
      for (const [id, last_name] of created)
        assert.equal((await api.get(`/v1/users/${id}`)).body.last_name, last_name, `user ${id} is lost`)
      for (const id of deleted) assert.equal((await api.get(`/v1/users/${id}`)).status, 404)
      api.close()
      return owned.length + created.size + deleted.size
    },
  }
}
