// Clients that send requests continuously and count the failed ones.
import { setTimeout as delay } from 'node:timers/promises'
import { createClient } from './http.ts'

export interface LoadOptions {
  url: string
  clients?: number
  /** Whether a client reuses its connection, as a proxy does, or opens a new one for each request. */
  connection?: 'keep-alive' | 'one a request'
  /** Milliseconds between a response and the client's next request. */
  pauseMs?: number
}

export interface Tally {
  requests: number
  failed: number
  /** The number of failures by message or status code. */
  failures: Record<string, number>
}

/** Starts all clients at once. `stop` waits for the responses to the requests in flight. */
export async function startLoad({ url, clients = 16, connection = 'keep-alive', pauseMs = 0 }: LoadOptions) {
  const tally: Tally = { requests: 0, failed: 0, failures: {} }
  const client = createClient(url, connection === 'keep-alive')
  const id = await client.create('/v1/groups', { name: `load ${Math.random()}` })

  let stopped = false
  const waiters: { requests: number; resolve(): void }[] = []
  async function run(): Promise<void> {
    while (!stopped) {
      // PATCH is not idempotent: clients do not retry it.
      const outcome = await client.patch(`/v1/groups/${id}`, {}).then(
        ({ status }) => String(status),
        (error: Error) => error.message,
      )
      tally.requests++
      if (outcome !== '200') {
        tally.failed++
        tally.failures[outcome] = (tally.failures[outcome] ?? 0) + 1
      }
      for (const one of waiters) if (tally.requests >= one.requests) one.resolve()
      // A part of the load.
      if (pauseMs > 0) await delay(pauseMs)
    }
  }
  const running = Array.from({ length: clients }, run)

  return {
    tally,
    /** Resolves after `count` more requests. */
    requests: (count: number) =>
      new Promise<void>(resolve => waiters.push({ requests: tally.requests + count, resolve })),
    async stop(): Promise<Tally> {
      stopped = true
      await Promise.all(running)
      client.close()
      return tally
    },
  }
}
