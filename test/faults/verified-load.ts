// A mixed load that records every acknowledged write and verifies the records during and after a fault.
import assert from 'node:assert/strict'
import { type Client, createClient } from '../support/http.ts'
import { pick } from '../support/pick.ts'
import { type Attempts, createAttempts } from './attempts.ts'
import { readBack } from './read-back.ts'

interface VerifiedLoadOptions {
  readonly url: string
  readonly clients: number
  /** Every request must complete within this time. */
  readonly maxResponseMs: number
  /** Counts the responses; by default, those of a service without a proxy. */
  readonly attempts?: Attempts
}

/** A user that only one client changes. Its last name is a counter that this client increments. */
interface OwnedUser {
  readonly api: Client
  readonly id: number
  acknowledged: number
  attempted: number
}

let names = 0
const newName = () => `${process.pid} ${++names}`

/** Starts the clients. All clients stop at the first violation, which `stop` then throws. */
export async function startVerifiedLoad(options: VerifiedLoadOptions) {
  const { url, clients, maxResponseMs, attempts = createAttempts(maxResponseMs) } = options
  const { attempt, tally, until } = attempts
  const created = new Map<number, string>()
  const deleted = new Set<number>()
  const owned: OwnedUser[] = []
  let stopped = false

  const operations = [
    async (own: OwnedUser) => {
      const last_name = String(++own.attempted)
      if (await attempt(() => own.api.patch(`/v1/users/${own.id}`, { last_name })))
        own.acknowledged = own.attempted
    },
    async (own: OwnedUser) => {
      const lowest = own.acknowledged
      const answer = await attempt(() => own.api.get(`/v1/users/${own.id}?include=groups`))
      if (answer === undefined) return
      const read = Number(answer.body.last_name)
      assert.ok(read >= lowest && read <= own.attempted, `${read}, expected ${lowest} to ${own.attempted}`)
    },
    async ({ api }: OwnedUser) => {
      const last_name = newName()
      const answer = await attempt(() => api.post('/v1/users', { first_name: 'Made', last_name }))
      if (answer) created.set(Number(answer.body.id), last_name)
    },
    async ({ api }: OwnedUser) => {
      const users = Array.from({ length: 5 }, () => ({ first_name: 'Batch', last_name: newName() }))
      const answer = await attempt(() => api.post('/v1/users', { users }))
      for (const { id, last_name = '' } of answer?.body.users ?? []) created.set(Number(id), last_name)
    },
    async ({ api }: OwnedUser) => {
      const [id] = created.keys()
      if (id === undefined) return
      // Removed from the map first: no other client may delete the user, and after a failed request it is unknown
      // whether the user still exists.
      created.delete(id)
      if (await attempt(() => api.delete(`/v1/users/${id}`))) deleted.add(id)
    },
    async ({ api }: OwnedUser) =>
      void (await attempt(() => api.get('/v1/users?records_per_page=10&include=groups'))),
  ]

  async function run(own: OwnedUser): Promise<void> {
    while (!stopped) {
      await pick(operations)(own)
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
      attempts.end()
    }),
  )
  // `stop` throws the failure; this handler prevents an unhandled rejection before that.
  for (const one of running) one.catch(() => {})

  return {
    tally,
    until,
    /** Stops the clients. @throws Error of the first violation */
    async stop(): Promise<void> {
      stopped = true
      await Promise.all(running)
      for (const api of apis) api.close()
    },
    /** Reads every acknowledged write back. @returns the number of records. @throws AssertionError if one is missing */
    async verify(): Promise<number> {
      const api = createClient(url)
      for (const { id, acknowledged, attempted } of owned) {
        const { body, text } = await readBack(api, `/v1/users/${id}`)
        const read = Number(body.last_name)
        const message = `expected user ${id} with ${acknowledged} to ${attempted}, but read ${text}`
        assert.ok(read >= acknowledged && read <= attempted, message)
      }
      for (const [id, last_name] of created) {
        const { body, text } = await readBack(api, `/v1/users/${id}`)
        assert.equal(body.last_name, last_name, `expected user ${id} with ${last_name}, but read ${text}`)
      }
      for (const id of deleted) assert.equal((await readBack(api, `/v1/users/${id}`)).status, 404)
      api.close()
      return owned.length + created.size + deleted.size
    },
  }
}
