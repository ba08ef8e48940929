// Redis is killed, empty, full, slow, silent and out of its mind, while a hunt for stale reads is on.
import assert from 'node:assert/strict'
import { Redis } from 'ioredis'
import { ask } from '../support/service.ts'
import { type Catch, hunt } from './hunt.ts'
import { slow, startRedisProxy, tampers } from './redis-proxy.ts'
import type { Scenario } from './scenario.ts'
import { withService } from './with-service.ts'

const cacheTimeoutMs = 250
const longestMs = 3000
const recoveryMs = 10_000

function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

export const redisFaults: Scenario = {
  title: 'a hunt for stale reads while Redis is killed, empty, full, slow, silent and out of its mind',

  async run({ short, redis }) {
    const proxy = await startRedisProxy(redis.url)
    const admin = async (...settings: string[]) => {
      const client = new Redis(new URL(redis.url).pathname)
      await client.config('SET', ...settings).finally(() => client.disconnect())
    }
    const faults: [name: string, begin: () => unknown, end: () => unknown][] = [
      ['healthy', () => {}, () => {}],
      ['killed', redis.pull, redis.putBack],
      ['restarted, empty', () => redis.pull().then(redis.putBack), () => {}],
      [
        'full',
        () => admin('maxmemory', '1', 'maxmemory-policy', 'noeviction'),
        () => admin('maxmemory', '128mb', 'maxmemory-policy', 'allkeys-lru'),
      ],
      ...Object.entries({ 'slow, 100 ms': slow(100), 'slow, 400 ms': slow(400), ...tampers }).map(
        ([name, tamper]): [string, () => unknown, () => unknown] => [
          name,
          () => proxy.setState(tamper),
          proxy.heal,
        ],
      ),
    ]

    const options = { env: { REDIS_URL: proxy.url }, config: { cache: { timeoutMs: cacheTimeoutMs } } }
    return withService(options, async service => {
      const hits = async () => {
        const metrics = (await ask(`${service.controlUrl}/metrics`))?.text ?? ''
        return Number(/^users_api_cache_lookups_total\{result="hits?"\} (\d+)/m.exec(metrics)?.[1])
      }
      const sum = { operations: 0, reads: 0 }
      const durationsMs = new Map<string, number[]>(faults.map(([name]) => [name, []]))
      const count = ({ operations, reads, impossible }: Catch, name: string) => {
        assert.deepEqual(impossible.slice(0, 5), [], name)
        sum.operations += operations
        sum.reads += reads
      }
      do
        for (const [name, begin, end] of faults) {
          await begin()
          const endMs = performance.now() + (short ? 2000 : 5000)
          const caught = await hunt(service.url, () => performance.now() > endMs)
          await end()
          count(caught, name)
          for (const durationMs of caught.durationsMs) durationsMs.get(name)?.push(durationMs)
          // It has to come back by itself.
          const before = await hits()
          const giveUpMs = performance.now() + recoveryMs
          while (!((await hits()) > before)) {
            assert.ok(performance.now() < giveUpMs, `${name}: the cache is not used again`)
            count(await hunt(service.url, operations => operations >= 100), `after ${name}`)
          }
        }
      while (!short && sum.operations < 1_000_000)
      const lines = [...durationsMs].map(([name, all]) => {
        const [p50, p99, most] = [0.5, 0.99, 1].map(share => Math.round(percentile(all, share)))
        assert.ok(Number(most) < longestMs, `${name}: ${most} ms`)
        return `${name}: ${all.length} operations, p50 ${p50}, p99 ${p99}, most ${most} ms`
      })
      proxy.close()
      return [
        `${sum.operations} operations, 0 failed; ${sum.reads} reads of a register, 0 stale`,
        ...lines,
      ].join('\n      ')
    })
  },
}
