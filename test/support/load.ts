// Clients that send requests continuously and count the failed ones.
import http from 'node:http'
import https from 'node:https'
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

/**
 * Sends one PATCH request. PATCH is not idempotent, so the client does not retry it.
 * @returns the status code, or the message of the error
 */
function ask(url: URL, path: string, agent: http.Agent | https.Agent): Promise<string> {
  const body = '{}'
  const options = {
    method: 'PATCH',
    agent,
    headers: { 'content-type': 'application/json', 'content-length': body.length },
  }
  return new Promise(resolve => {
    const { request } = url.protocol === 'https:' ? https : http
    const outgoing = request(new URL(path, url), options, response => {
      response.on('error', error => resolve(`in the response: ${error.message}`))
      response.resume().on('end', () => resolve(String(response.statusCode)))
    })
    outgoing.on('error', error => resolve(error.message))
    outgoing.end(body)
  })
}

/** Starts all clients at once. `stop` waits for the responses to the requests in flight. */
export async function startLoad({ url, clients = 16, connection = 'keep-alive', pauseMs = 0 }: LoadOptions) {
  const tally: Tally = { requests: 0, failed: 0, failures: {} }
  const base = new URL(url)
  const options = { keepAlive: connection === 'keep-alive', rejectUnauthorized: false, maxSockets: clients }
  const agent = base.protocol === 'https:' ? new https.Agent(options) : new http.Agent(options)
  const setup = createClient(url)
  const id = await setup.create('/v1/groups', { name: `load ${Math.random()}` })
  setup.close()

  let stopped = false
  const waiters: { requests: number; resolve(): void }[] = []
  async function run(): Promise<void> {
    while (!stopped) {
      const answer = await ask(base, `/v1/groups/${id}`, agent)
      tally.requests++
      if (answer !== '200') {
        tally.failed++
        tally.failures[answer] = (tally.failures[answer] ?? 0) + 1
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
      agent.destroy()
      return tally
    },
  }
}
