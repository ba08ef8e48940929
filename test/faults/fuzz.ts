// A mutation fuzzer: random requests, well-formed and not, and never an answer that says the service is at fault.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { createClient, sendRaw } from '../support/http.ts'
import { ask } from '../support/service.ts'
import { hasBody, mutant, request } from './random-requests.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const clients = 16
const atOnce = 500
/** Of so many requests one is sent as bytes, on a connection of its own. */
const rawEvery = 10

export const fuzz: Scenario = {
  title: 'random requests, well-formed and not',

  run: ({ short }) =>
    withService({ config: { timeouts: { headersMs: 500, requestMs: 1000 } } }, async service => {
      const wanted = short ? 4000 : 1_000_000
      const workers = await service.workers()
      const statuses = new Map<number | 'hung up', number>()
      const seed = Date.now() % 2 ** 31
      let sent = 0

      function check(status: number | undefined, what: unknown): void {
        assert.ok(status === undefined || status < 500, `seed ${seed}: ${status} for ${JSON.stringify(what)}`)
        statuses.set(status ?? 'hung up', (statuses.get(status ?? 'hung up') ?? 0) + 1)
        sent++
      }

      async function run(client: number): Promise<void> {
        const api = createClient(service.url)
        for (let round = 0; sent < wanted; round++) {
          const options = { numRuns: atOnce, seed: seed + round * clients + client }
          const mutants = fc.sample(mutant, { ...options, numRuns: atOnce / rawEvery })
          for (const [at, one] of fc.sample(request, options).entries()) {
            const json = { 'content-type': 'application/json', ...one.headers }
            const answer = hasBody(one)
              ? await api.send(
                  one.method,
                  one.path,
                  { ...json, 'content-length': Buffer.byteLength(one.body) },
                  one.body,
                )
              : await api.send(one.method, one.path, one.headers)
            check(answer.status, one)
            const raw = at % rawEvery === 0 ? mutants[at / rawEvery] : undefined
            if (raw === undefined) continue
            const { answer: rawAnswer } = await sendRaw(service.url, raw, 'end').catch(() => ({
              answer: undefined,
            }))
            check(rawAnswer?.status, raw)
          }
        }
        api.close()
      }
      await Promise.all(Array.from({ length: clients }, (_, client) => run(client)))
      assert.deepEqual(await service.workers(), workers)
      assert.equal((await ask(`${service.controlUrl}/healthcheck/http`))?.status, 200)
      const counts = [...statuses]
        .toSorted(([, a], [, b]) => b - a)
        .map(([status, count]) => `${count} × ${status}`)
      return `${sent} requests, no 5xx, no worker lost: ${counts.join(', ')}`
    }),
}
