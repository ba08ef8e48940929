// Scenario: a mutation fuzzer sends random valid and invalid requests. No response may be a 5xx.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { createClient, sendRaw } from '../support/http.ts'
import { ask } from '../support/service.ts'
import { hasBody, mutant, request } from './random-requests.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const clients = 16
const batchSize = 500
/** One in this many requests is followed by mutated bytes on a separate connection. */
const rawEvery = 10

export const fuzz: Scenario = {
  title: 'random valid and invalid requests',

  run: ({ short }) =>
    withService({ config: { timeouts: { headersMs: 500, requestMs: 1000 } } }, async service => {
      const total = short ? 4000 : 1_000_000
      const workers = await service.workers()
      const statuses = new Map<number | 'no response', number>()
      const seed = Date.now() % 2 ** 31
      let sent = 0

      function check(status: number | undefined, sentRequest: unknown): void {
        const message = `seed ${seed}: ${status} for ${JSON.stringify(sentRequest)}`
        assert.ok(status === undefined || status < 500, message)
        statuses.set(status ?? 'no response', (statuses.get(status ?? 'no response') ?? 0) + 1)
        sent++
      }

      async function run(client: number): Promise<void> {
        const api = createClient(service.url)
        for (let round = 0; sent < total; round++) {
          const options = { numRuns: batchSize, seed: seed + round * clients + client }
          const mutants = fc.sample(mutant, { ...options, numRuns: batchSize / rawEvery })
          for (const [index, one] of fc.sample(request, options).entries()) {
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
            const raw = index % rawEvery === 0 ? mutants[index / rawEvery] : undefined
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
      return `${sent} requests, no 5xx, no worker exited: ${counts.join(', ')}`
    }),
}
