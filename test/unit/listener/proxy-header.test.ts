// The parser of PROXY headers: headers parse back, any part of one asks for more, and no bytes make it throw.
import test from 'ava'
import fc from 'fast-check'
import { canonical } from '../../../src/listener/client-address.ts'
import { parseProxyHeader } from '../../../src/listener/proxy-header.ts'
import { bytesOf, version1, version2, version2Raw } from '../../support/proxy-header.ts'

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map(array => Buffer.from(array))
const port = fc.integer({ min: 0, max: 65_535 })
// Without fc.ipV6(): some of its addresses are too long for a line.
const group = fc.oneof(fc.constant(0), fc.nat({ max: 65_535 })).map(number => number.toString(16))
const ipv6 = fc.array(group, { minLength: 8, maxLength: 8 }).map(groups => groups.join(':'))
const shortIpv6 = fc.constantFrom('::', '::1', '2001:db8::', '2001:db8::7', '::ffff:0:1', '::ffff:192.0.2.1')
const ipv4Pair = fc.tuple(fc.ipV4(), fc.ipV4())

/** A header, and the address in it. */
interface Sent {
  readonly header: Buffer
  readonly source: string | undefined
}
const sentV1 = fc
  .tuple(fc.oneof(ipv4Pair, fc.tuple(ipv6, shortIpv6), fc.tuple(shortIpv6, ipv6)), port, port)
  .map(([[source, destination], from, to]) => ({
    header: version1(source, destination, from, to),
    source: canonical(source),
  }))
const sentV2 = fc
  .tuple(fc.oneof(ipv4Pair, fc.tuple(ipv6, ipv6)), bytes(1000))
  .map(([[source, destination], tlvs]) => ({
    header: version2(source, destination, tlvs),
    source: canonical(source),
  }))
const unknown = fc
  .stringMatching(/^( [ -~]{0,90})?$/)
  .map(text => ({ header: Buffer.from(`PROXY UNKNOWN${text}\r\n`), source: undefined }))
const local = fc
  .tuple(fc.oneof(fc.constantFrom(0x11, 0x21), fc.nat({ max: 255 })), bytes(300))
  .map(([family, rest]) => ({ header: version2Raw(0x20, family, rest), source: undefined }))
const withoutAddress = fc
  .tuple(fc.constantFrom(0, 0x10, 0x01, 0x12, 0x22, 0x31, 0x32), bytes(300))
  .map(([family, rest]) => ({ header: version2Raw(0x21, family, rest), source: undefined }))
const sent: fc.Arbitrary<Sent> = fc.oneof(sentV1, sentV2, unknown, local, withoutAddress)

test('PROXY header: each header parses back, whatever follows it', t => {
  const property = fc.property(sent, bytes(100), ({ header, source }, rest) => {
    t.deepEqual(parseProxyHeader(Buffer.concat([header, rest])), { length: header.length, source })
  })
  fc.assert(property)
  t.pass()
})

test('PROXY header: each part of a header asks for more', t => {
  const property = fc.property(sent, ({ header }) => {
    for (let length = 0; length < header.length; length++)
      if (parseProxyHeader(header.subarray(0, length)) !== 'incomplete') return false
    return true
  })
  t.notThrows(() => fc.assert(property))
})

test('PROXY header: random bytes never throw, and more bytes never change a result', t => {
  const changed = fc.tuple(sent, fc.nat(), fc.nat({ max: 255 })).map(([{ header }, at, byte]) => {
    const copy = Buffer.from(header)
    copy[at % copy.length] = byte
    return copy
  })
  const line = fc
    .string({ unit: fc.constantFrom('\r', '\n', ' ', '.', ':', '0', '9', 'f', 'T', '4'), maxLength: 120 })
    .map(text => Buffer.from(`PROXY TCP4 ${text}\r\n`))
  const property = fc.property(fc.oneof(bytes(200), changed, line), fc.nat(), (all, cut) => {
    const result = parseProxyHeader(all)
    const earlier = parseProxyHeader(all.subarray(0, cut % (all.length + 1)))
    if (earlier !== 'incomplete') t.deepEqual(earlier, result)
    if (typeof result === 'object') t.true(result.length <= all.length)
  })
  fc.assert(property, { numRuns: 1000 })
  t.pass()
})

test('PROXY header: an IPv4 address in IPv6 is that IPv4 address, and IPv6 is in its short form', t => {
  const mapped = Buffer.concat([Buffer.alloc(10), Buffer.from([255, 255, 192, 0, 2, 1])])
  const rest = Buffer.concat([mapped, bytesOf('::1'), Buffer.alloc(4)])
  t.like(parseProxyHeader(version2Raw(0x21, 0x21, rest)), { source: '192.0.2.1' })
  t.like(parseProxyHeader(version2('2001:db8:0:0:0:0:0:1', '::1')), { source: '2001:db8::1' })
  t.like(parseProxyHeader(version1('2001:DB8:0:0:0:0:0:1', '::1')), { source: '2001:db8::1' })
})

const lines = {
  'another protocol': 'GET / HTTP/1.1\r\n\r\n',
  TLS: '\x16\x03\x01',
  'lower case': 'proxy TCP4',
  'no space after PROXY': 'PROXY\r\n',
  'a protocol that does not exist': 'PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n',
  'a protocol in lower case': 'PROXY tcp4 1.2.3.4 1.2.3.4 1 2\r\n',
  'more than UNKNOWN': 'PROXY UNKNOWNS\r\n',
  'two spaces': 'PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n',
  'IPv6 as TCP4': 'PROXY TCP4 ::1 ::1 1 2\r\n',
  'IPv4 as TCP6': 'PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n',
  'an invalid source': 'PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n',
  'an invalid destination': 'PROXY TCP4 1.2.3.4 1.2.3 1 2\r\n',
  'a zone': 'PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n',
  'a leading zero in an address': 'PROXY TCP4 1.2.3.04 1.2.3.4 1 2\r\n',
  'a leading zero in a port': 'PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n',
  'a port above 65535': 'PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n',
  'no port': 'PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n',
  'more than two ports': 'PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n',
  'a bare line feed': `PROXY TCP4 1.2.3.4 1.2.3.4 1 2\nGET / HTTP/1.1\r\n`,
  'a line of 108 bytes': `PROXY UNKNOWN ${'a'.repeat(92)}\r\n`,
  'a line without end': `PROXY UNKNOWN ${'a'.repeat(93)}`,
}
const valid = Buffer.alloc(12)
const headers = {
  'version 1 in the binary format': version2Raw(0x11, 0x11, valid),
  'an unassigned command': version2Raw(0x22, 0x11, valid),
  'an unassigned family': version2Raw(0x21, 0x41, valid),
  'an unassigned protocol': version2Raw(0x21, 0x13, valid),
  'too short for IPv4': version2Raw(0x21, 0x11, Buffer.alloc(11)),
  'too short for IPv6': version2Raw(0x21, 0x21, Buffer.alloc(35)),
}
test('PROXY header: malformed headers', t => {
  for (const [name, line] of Object.entries(lines))
    t.is(parseProxyHeader(Buffer.from(line, 'latin1')), 'malformed', name)
  for (const [name, header] of Object.entries(headers)) t.is(parseProxyHeader(header), 'malformed', name)
  t.deepEqual(parseProxyHeader(Buffer.from(`PROXY UNKNOWN ${'a'.repeat(91)}\r\n`)), {
    length: 107,
    source: undefined,
  })
})
