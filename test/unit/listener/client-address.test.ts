// The client's address behind proxies: random chains of headers give the address of a naive model, and no text that an
// untrusted client sends changes it.
import test from 'ava'
import fc from 'fast-check'
import { canonical, clientAddress, createIsTrusted, networkOf } from '../../../src/listener/client-address.ts'
import { loggedClient } from '../../../src/listener/request-log.ts'

/** An address as a number, and its number of bits. */
interface Address {
  readonly bits: 32 | 128
  readonly value: bigint
}

const textOf = ({ bits, value }: Address): string => {
  const hex = value.toString(16).padStart(bits / 4, '0')
  if (bits === 128) return (hex.match(/.{4}/g) ?? []).join(':')
  return (hex.match(/../g) ?? []).map(byte => Number.parseInt(byte, 16)).join('.')
}

// Few different addresses, so that chains often contain addresses of the trusted networks.
const ipv4 = fc
  .tuple(fc.constantFrom(10n, 192n), fc.nat({ max: 2 }), fc.constantFrom(0n, 1n, 255n))
  .map(([a, b, c]): Address => ({ bits: 32, value: (a << 24n) | (BigInt(b) << 16n) | c }))
const ipv6 = fc
  .tuple(
    fc.constantFrom(0x20010db8n, 0xfd000000n, 0n),
    fc.nat({ max: 2 }),
    fc.constantFrom(0n, 1n, 0xffffn << 40n),
  )
  .map(([a, b, c]): Address => ({ bits: 128, value: (a << 96n) | (BigInt(b) << 80n) | c }))
const address = fc.oneof(ipv4, ipv6)

/** A trusted network: all addresses whose first `prefix` bits are those of `base`. */
const network = address.chain(base =>
  fc.record({ base: fc.constant(base), prefix: fc.constantFrom(0, 8, 16, base.bits - 1, base.bits) }),
)
type Network = typeof network extends fc.Arbitrary<infer T> ? T : never

/** An IPv4 address is also `::ffff:` and itself, in IPv6 networks. */
const isIn = ({ bits, value }: Address, { base, prefix }: Network): boolean => {
  if (bits === 32 && base.bits === 128)
    return isIn({ bits: 128, value: (0xffffn << 32n) | value }, { base, prefix })
  return bits === base.bits && value >> BigInt(bits - prefix) === base.value >> BigInt(bits - prefix)
}

const cidr = ({ base, prefix }: Network): string =>
  prefix === base.bits ? textOf(base) : `${textOf(base)}/${prefix}`

/** What a proxy writes about the hop before it: an address in one of its notations, or something without an address. */
const hop = fc.record({
  address: fc.option(address, { nil: undefined, freq: 8 }),
  hidden: fc.constantFrom('unknown', '_hidden', '_SEVKISEK', 'localhost', '10.0.0.256', '1:2'),
  port: fc.constantFrom('', '', ':4711', ':_port'),
  uppercase: fc.boolean(),
  mapped: fc.boolean(),
  // Pairs can be empty.
  others: fc.constantFrom('', ';', ';;proto=http', ' ; ;', '; by=_me;host="a, b\\";for=10.0.0.1"'),
  name: fc.constantFrom('for', 'For', 'proto=https;FOR', ';for', '; ;;For'),
  /** What follows the element. Elements of the list can be empty. */
  separator: fc.constantFrom(',', ', ', ', ,', ',\t, ,,'),
})
type Hop = typeof hop extends fc.Arbitrary<infer T> ? T : never

function nodeOf({ address, hidden, port, uppercase, mapped }: Hop): string {
  if (address === undefined) return hidden + port
  const text = address.bits === 32 && mapped ? `::ffff:${textOf(address)}` : textOf(address)
  const cased = uppercase ? text.toUpperCase() : text
  if (!text.includes(':')) return cased + port
  return port === '' ? cased : `[${cased}]${port}`
}

const forwardedFor = (hops: readonly Hop[]) => hops.map(one => nodeOf(one) + one.separator).join('')
const forwarded = (hops: readonly Hop[]) =>
  hops
    .map(one => {
      const node = nodeOf(one)
      const bracketed =
        node.includes('::') || node.split(':').length > 2 ? node.replace(/^([^[]*)$/, '[$1]') : node
      return `${one.name}=${/^[\w.]+$/.test(bracketed) ? bracketed : `"${bracketed}"`}${one.others}${one.separator}`
    })
    .join('')

/** @returns the addresses from the right, as far as the hop that has written them is trusted */
function naive(peer: Address, hops: readonly Hop[], trusted: readonly Network[]): Address {
  const reported = hops.map(one => one.address)
  let result = peer
  while (trusted.some(one => isIn(result, one))) {
    const next = reported.pop()
    if (next === undefined) break
    result = next
  }
  return result
}

test('client address: random chains of hops give the address of the naive model', t => {
  fc.assert(
    fc.property(
      address,
      fc.array(hop, { maxLength: 5 }),
      fc.array(network, { maxLength: 4 }),
      fc.constantFrom('forwarded', 'x-forwarded-for', 'both'),
      (peer, hops, networks, which) => {
        const isTrusted = createIsTrusted(networks.map(cidr))
        const headers = {
          ...(which !== 'x-forwarded-for' && hops.length > 0 && { forwarded: forwarded(hops) }),
          ...(which !== 'forwarded' && hops.length > 0 && { 'x-forwarded-for': forwardedFor(hops) }),
        }
        const expected = canonical(textOf(naive(peer, hops, networks)))
        t.is(clientAddress(textOf(peer), headers, isTrusted), expected ?? '', JSON.stringify(headers))
      },
    ),
    { numRuns: 2000 },
  )
})

const real = '203.0.113.7'
const isTrusted = createIsTrusted(['10.0.0.0/8', 'fd00::/8'])
const added = {
  forwarded: (sent: string) => `${sent}${sent && ', '}for=${real}`,
  'x-forwarded-for': (sent: string) => `${sent}${sent && ', '}${real}`,
}
/** Text that looks like a header, or like a part of one. */
const spoofed = fc.oneof(
  fc.string(),
  fc
    .array(fc.constantFrom(...'",;=\\ ', 'for=', '10.0.0.1', '"[fd00::1]"', 'by', '_a', ',,', 'host="'), {
      maxLength: 12,
    })
    .map(parts => parts.join('')),
)

for (const name of ['forwarded', 'x-forwarded-for'] as const)
  test(`client address: text before the entry of a trusted proxy changes nothing, in ${name}`, t => {
    fc.assert(
      fc.property(spoofed, sent => {
        t.is(clientAddress('10.0.0.1', { [name]: added[name](sent) }, isTrusted), real)
        t.is(clientAddress(real, { [name]: added[name](sent) }, isTrusted), real, 'the peer is not trusted')
      }),
      { numRuns: 2000 },
    )
  })

test('client address: a header that the proxy only passes on cannot name another client', t => {
  const headers = { forwarded: 'for=198.51.100.1', 'x-forwarded-for': real }
  t.is(clientAddress('10.0.0.1', headers, isTrusted), '10.0.0.1')
  fc.assert(
    fc.property(fc.constantFrom('forwarded', 'x-forwarded-for'), spoofed, spoofed, (name, sent, other) => {
      const headers = { forwarded: other, 'x-forwarded-for': other, [name]: added[name](sent) }
      t.true([real, '10.0.0.1'].includes(clientAddress('10.0.0.1', headers, isTrusted)))
    }),
  )
})

test('client address: examples of both headers', t => {
  const of = (headers: Record<string, string>, peer = '10.0.0.1') => clientAddress(peer, headers, isTrusted)
  t.is(of({}), '10.0.0.1')
  t.is(of({}, '::ffff:10.0.0.1'), '10.0.0.1')
  t.is(of({}, 'fe80::1%eth0'), 'fe80::1')
  t.is(of({ 'x-forwarded-for': '1.2.3.4, 5.6.7.8, 10.0.0.2' }), '5.6.7.8')
  t.is(of({ 'x-forwarded-for': '1.2.3.4:80, 10.0.0.2:1234' }), '1.2.3.4')
  t.is(of({ 'x-forwarded-for': '[2001:DB8::1]:443' }, 'fd00::2'), '2001:db8::1')
  t.is(of({ 'x-forwarded-for': '2001:db8::1' }), '2001:db8::1')
  for (const end of ['unknown', '_a', 'a.test', '1.2.3', '[1.2.3.4', '1.2.3.4]', '"1.2.3.4"'])
    t.is(of({ 'x-forwarded-for': `1.1.1.1, ${end}, 10.0.0.2` }), '10.0.0.2', end)
  t.is(of({ 'x-forwarded-for': ', ,1.2.3.4,, 10.0.0.2 ,' }), '1.2.3.4')
  t.is(of({ forwarded: 'for=192.0.2.60;proto=http;by=203.0.113.43' }), '192.0.2.60')
  t.is(of({ forwarded: 'For="[2001:db8:cafe::17]:4711"' }), '2001:db8:cafe::17')
  t.is(of({ forwarded: 'for=192.0.2.43, for="[2001:db8:cafe::17]", for=unknown, for=10.1.1.1' }), '10.1.1.1')
  t.is(of({ forwarded: 'for=192.0.2.43, proto=http' }), '10.0.0.1')
  t.is(of({ forwarded: 'for=192.0.2.43, ;' }), '10.0.0.1', 'an element without for')
  t.is(of({ forwarded: 'for=192.0.2.43;' }), '192.0.2.43')
  t.is(of({ forwarded: ', ,for=192.0.2.43, , for=10.0.0.1,' }), '192.0.2.43')
  t.is(of({ forwarded: 'for="10.0.\\0.3"' }), '10.0.0.3')
  t.is(of({ forwarded: 'nonsense' }), '10.0.0.1')
})

test('client address: a zone does not change how an address is read, however long the address is', t => {
  const full = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }).map(value => textOf({ bits: 128, value }))
  const withIpv4 = full.map(text => `${text.slice(0, 30)}255.255.255.255`)
  fc.assert(
    fc.property(fc.oneof(full, withIpv4), fc.constantFrom('1', 'eth0', 'a:b'), (text, zone) => {
      const headers = { 'x-forwarded-for': `${text}%${zone}` }
      t.is(clientAddress('10.0.0.1', headers, isTrusted), canonical(text) ?? '')
    }),
  )
})

test('client address: a hostile header is read in linear time', t => {
  const header = ['",a="\\', ',for="', ', ', '\\"', ',', ' ; ;', ',x'].map(part => part.repeat(3000)).join('')
  // Not the time on the clock: other processes and a slow machine do not count.
  const before = process.cpuUsage()
  for (let repeat = 0; repeat < 10; repeat++)
    t.is(clientAddress('10.0.0.1', { forwarded: header, 'x-forwarded-for': header }, isTrusted), '10.0.0.1')
  t.true(process.cpuUsage(before).user < 5_000_000, 'in microseconds')
})

test('network of an address: /24 of IPv4 and /48 of IPv6', t => {
  const examples = {
    '192.0.2.77': '192.0.2.0/24',
    '2001:db8:1:2::3': '2001:db8:1::/48',
    '2001:db8::3': '2001:db8::/48',
    '::1': '::/48',
    '::2:3:4:5:6:7:8': '0:2:3::/48',
    '::1.2.3.4': '::/48',
  }
  for (const [full, prefix] of Object.entries(examples)) t.is(networkOf(full), prefix)
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }), value => {
      const full = canonical(textOf({ bits: 128, value }))
      const base: Address = { bits: 128, value: (value >> 80n) << 80n }
      if (full?.includes(':')) t.is(networkOf(full), `${canonical(textOf(base))}/48`)
    }),
  )
})

test('logged client: the setting decides how much of the address is shown', t => {
  const shown = (client: 'full' | 'prefix' | 'off') => loggedClient(real, client)
  t.deepEqual([shown('full'), shown('prefix'), shown('off')], [real, '203.0.113.0/24', undefined])
  t.is(loggedClient(undefined, 'full'), undefined)
})
