// Scenario: Redis is killed, restarted empty, full, slow, unresponsive, or sends wrong data while a register workload
// checks that no read is stale.
import assert from 'node:assert/strict'
import { Redis } from 'ioredis'
import { ask } from '../support/service.ts'
import { responseFaults, slow, startRedisProxy } from './redis-proxy.ts'
import { runRegisterWorkload, type WorkloadResult } from './register-workload.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const cacheTimeoutMs = 250
const maxResponseMs = 3000
const maxRecoveryMs = 60_000
/** On a slow machine, the time alone would leave a fault without an operation. */
const minOperations = 100

function percentile(values: readonly number[], fraction: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? 0
}

export const redisFaults: Scenario = {
  title: 'stale-read check while Redis is killed, empty, full, slow, unresponsive or wrong',

  async run({ short, redis }) {
    const proxy = await startRedisProxy(redis.url)
    const configure = async (...settings: string[]) => {
      const client = new Redis({ path: decodeURIComponent(new URL(redis.url).pathname) })
      await client.config('SET', ...settings).finally(() => client.disconnect())
    }
    const faults: [name: string, begin: () => unknown, end: () => unknown][] = [
      ['healthy', () => {}, () => {}],
      ['killed', redis.kill, redis.start],
      ['restarted, empty', () => redis.kill().then(redis.start), () => {}],
      [
        'full',
        () => configure('maxmemory', '1', 'maxmemory-policy', 'noeviction'),
        () => configure('maxmemory', '128mb', 'maxmemory-policy', 'allkeys-lru'),
      ],
      ...Object.entries({ 'slow, 100 ms': slow(100), 'slow, 400 ms': slow(400), ...responseFaults }).map(
        ([name, fault]): [string, () => unknown, () => unknown] => [
          name,
          () => proxy.setFault(fault),
          proxy.clearFault,
        ],
      ),
    ]

    const options = { env: { REDIS_URL: proxy.url }, config: { cache: { timeoutMs: cacheTimeoutMs } } }
    return withService(options, async service => {
      const cacheHits = async () => {
        const metrics = (await ask(`${service.controlUrl}/metrics`))?.text ?? ''
        return Number(/^users_api_cache_lookups_total\{result="hits?"\} (\d+)/m.exec(metrics)?.[1])
      }
      const sum = { operations: 0, reads: 0 }
      const durationsMs = new Map<string, number[]>(faults.map(([name]) => [name, []]))
      const add = ({ operations, reads, violations }: WorkloadResult, name: string) => {
        assert.deepEqual(violations.slice(0, 5), [], name)
        sum.operations += operations
        sum.reads += reads
      }
      do
        for (const [name, begin, end] of faults) {
          await begin()
          const endMs = performance.now() + (short ? 1000 : 5000)
          const result = await runRegisterWorkload(
            service.url,
            operations => operations >= minOperations && performance.now() > endMs,
          )
          await end()
          add(result, name)
          for (const durationMs of result.durationsMs) durationsMs.get(name)?.push(durationMs)
          // The service must start to use the cache again without a restart.
          const before = await cacheHits()
          const deadlineMs = performance.now() + maxRecoveryMs
          while (!((await cacheHits()) > before)) {
            assert.ok(performance.now() < deadlineMs, `${name}: the cache is not used again`)
            add(
              await runRegisterWorkload(service.url, operations => operations >= minOperations),
              `after ${name}`,
            )
          }
        }
      while (!short && sum.operations < 1_000_000)
      const lines = [...durationsMs].map(([name, all]) => {
        const [p50, p99, max] = [0.5, 0.99, 1].map(fraction => Math.round(percentile(all, fraction)))
        assert.ok(Number(max) < maxResponseMs, `${name}: ${max} ms`)
        return `${name}: ${all.length} operations, p50 ${p50} ms, p99 ${p99} ms, max ${max} ms`
      })
      proxy.close()
      return [`${sum.operations} operations, 0 failed; ${sum.reads} register reads, 0 stale`, ...lines].join(
        '\n      ',
      )
    })
  },
}
