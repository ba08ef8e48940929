// Headers of the PROXY protocol as a proxy sends them.
import { isIPv4 } from 'node:net'

const signature = Buffer.from('0d0a0d0a000d0a515549540a', 'hex')

/** An IPv4 address, or an IPv6 address in hexadecimal notation, in network byte order. */
export function bytesOf(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number))
  const [head = [], tail = []] = address
    .split('::')
    .map(half => half.split(':').filter(group => group !== ''))
  const groups = [...head, ...new Array<string>(8 - head.length - tail.length).fill('0'), ...tail]
  return Buffer.from(groups.map(group => group.padStart(4, '0')).join(''), 'hex')
}

/** A line of version 1. Both addresses have the same family. */
export const version1 = (source: string, destination: string, sourcePort = 50_000, port = 443): Buffer =>
  Buffer.from(`PROXY TCP${isIPv4(source) ? 4 : 6} ${source} ${destination} ${sourcePort} ${port}\r\n`)

/** A header of version 2 with any content. `versionAndCommand` is 0x20 for LOCAL and 0x21 for PROXY. */
export function version2Raw(versionAndCommand: number, familyAndProtocol: number, rest: Buffer): Buffer {
  const fixed = Buffer.from([versionAndCommand, familyAndProtocol, rest.length >> 8, rest.length & 255])
  return Buffer.concat([signature, fixed, rest])
}

/** A header of version 2 for TCP. Both addresses have the same family. */
export const version2 = (source: string, destination: string, tlvs: Buffer = Buffer.alloc(0)): Buffer =>
  version2Raw(
    0x21,
    isIPv4(source) ? 0x11 : 0x21,
    Buffer.concat([bytesOf(source), bytesOf(destination), Buffer.from([195, 80, 1, 187]), tlvs]),
  )
