// The addresses of Redis.
import test from 'ava'
import { Redis } from 'ioredis'
import { connect } from '../../../src/cache/connect.ts'

test('connect: the address of a host can be an IPv6 address, with or without a port', t => {
  for (const [host, port] of [
    ['[::1]', 6379],
    ['[::1]:7000', 7000],
  ] as const) {
    const redis = connect({ url: [`redis://${host}`], timeoutMs: 1 })
    t.teardown(() => redis.disconnect())
    redis.on('error', () => {})
    t.like(redis instanceof Redis && redis.options, { host: '::1', port })
  }
})
