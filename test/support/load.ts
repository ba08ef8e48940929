// Clients that never stop asking, and count every request that is not answered as it should be.
import http from 'node:http'
import https from 'node:https'
import { createClient } from './http.ts'

export interface LoadOptions {
  url: string
  clients?: number
  /** Whether a client keeps its connection, as a proxy does, or makes one for each request. */
  connection?: 'keep-alive' | 'one a request'
  /** Time between the requests of a client. */
  pauseMs?: number
}

export interface Tally {
  requests: number
  failed: number
  /** How often each failure came. */
  failures: Record<string, number>
}

/** One request with a body, which no client may repeat by itself: 200, or the reason why not. */
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
      response.on('error', error => resolve(`in the answer: ${error.message}`))
      response.resume().on('end', () => resolve(String(response.statusCode)))
    })
    outgoing.on('error', error => resolve(error.message))
    outgoing.end(body)
  })
}

/** Starts the clients at once; `stop` waits for the answers that are still to come. */
export async function startLoad({ url, clients = 16, connection = 'keep-alive', pauseMs = 0 }: LoadOptions) {
  const tally: Tally = { requests: 0, failed: 0, failures: {} }
  const base = new URL(url)
  const options = { keepAlive: connection === 'keep-alive', rejectUnauthorized: false, maxSockets: clients }
  const agent = base.protocol === 'https:' ? new https.Agent(options) : new http.Agent(options)
  const maker = createClient(url)
  const id = await maker.create('/v1/groups', { name: `load ${Math.random()}` })
  maker.close()

  let stopped = false
  const wanted: { requests: number; resolve(): void }[] = []
  async function run(): Promise<void> {
    while (!stopped) {
      const answer = await ask(base, `/v1/groups/${id}`, agent)
      tally.requests++
      if (answer !== '200') {
        tally.failed++
        tally.failures[answer] = (tally.failures[answer] ?? 0) + 1
      }
      for (const one of wanted) if (tally.requests >= one.requests) one.resolve()
      if (pauseMs > 0) await new Promise(resolve => setTimeout(resolve, pauseMs))
    }
  }
  const running = Array.from({ length: clients }, run)

  return {
    tally,
    /** Resolves after so many more requests. */
    requests: (count: number) =>
      new Promise<void>(resolve => wanted.push({ requests: tally.requests + count, resolve })),
    async stop(): Promise<Tally> {
      stopped = true
      await Promise.all(running)
      agent.destroy()
      return tally
    },
  }
}
