// Reads of several keys whose replies are missing.
import test, { type ExecutionContext } from 'ava'
import { Cluster, Redis } from 'ioredis'
import { readKeys } from '../../../src/cache/client.ts'

/** Returns a client of a cluster that has no reply to the keys in `silent`. */
function clusterOf(t: ExecutionContext, silent: readonly string[]): Cluster {
  const cluster = new Cluster(['redis://127.0.0.1'], { lazyConnect: true })
  t.teardown(() => cluster.disconnect())
  const never = new Promise(() => {})
  return Object.assign(cluster, {
    get: (key: string) => (silent.includes(key) ? never : Promise.resolve(`value of ${key}`)),
  })
}

test('cluster: the keys of a node that does not reply have no value', async t => {
  t.deepEqual(await readKeys(clusterOf(t, ['b']), ['a', 'b'], 10), ['value of a', undefined])
})

test('cluster: without any reply, a read fails', async t => {
  await t.throwsAsync(readKeys(clusterOf(t, ['a', 'b']), ['a', 'b'], 10), {
    message: 'no reply within 10 ms',
  })
})

test('server: a reply with another number of values is an error', async t => {
  const redis = new Redis({ lazyConnect: true })
  t.teardown(() => redis.disconnect())
  Object.assign(redis, { mget: async () => ['value of a'] })
  await t.throwsAsync(readKeys(redis, ['a', 'b'], 1000), { message: 'unexpected reply to MGET' })
})
