// The rate of the requests that arrive at a draining port, and the addresses that send them.
import test from 'ava'
import fc from 'fast-check'
import { createArrivals } from '../../../src/listener/arrivals.ts'

test('arrivals: the rate of the last five seconds, and the busiest addresses first', t => {
  const arrivals = createArrivals(1000)
  t.deepEqual(arrivals.report(1000), { perSecond: 0, addresses: [] })
  for (const [atMs, address] of [
    [1000, '10.0.0.1'],
    [1200, '10.0.0.2'],
    [1400, '10.0.0.2'],
    [1600, undefined],
  ] as const)
    arrivals.add({ address, atMs })
  t.deepEqual(arrivals.report(3000), { perSecond: 2, addresses: ['10.0.0.2', '10.0.0.1'] })
  t.deepEqual(arrivals.report(6300), { perSecond: 2 / 5, addresses: ['10.0.0.2'] })
  t.deepEqual(arrivals.report(6600), { perSecond: 0, addresses: [] })
})

test('arrivals: only the last thousand are remembered', t => {
  const arrivals = createArrivals(0)
  arrivals.add({ address: '10.0.0.1', atMs: 0 })
  for (let count = 0; count < 1000; count++) arrivals.add({ address: '10.0.0.2', atMs: 0 })
  t.deepEqual(arrivals.report(0).addresses, ['10.0.0.2'])
})

test('arrivals: an IPv4 address has its usual form on a socket of all IPv6 addresses, too', t => {
  const arrivals = createArrivals(0)
  for (const address of ['::ffff:10.0.0.1', '10.0.0.1', '2001:db8::1']) arrivals.add({ address, atMs: 1000 })
  t.deepEqual(arrivals.report(1000).addresses, ['10.0.0.1', '2001:db8::1'])
})

test('arrivals: the rate of a steady load, whatever its height, from few remembered requests', t => {
  const property = fc.property(fc.integer({ min: 1, max: 5000 }), perSecond => {
    const arrivals = createArrivals(0)
    for (let count = 1; count <= 10 * perSecond; count++)
      arrivals.add({ address: `10.0.${count % 20}.1`, atMs: (count * 1000) / perSecond })
    const report = arrivals.report(10_000)
    t.true(Math.abs(report.perSecond - perSecond) <= 0.01 * perSecond, JSON.stringify(report))
    t.is(report.addresses.length, Math.min(10, 5 * perSecond))
  })
  fc.assert(property, { numRuns: 20 })
})
