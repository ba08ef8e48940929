// The header of the PROXY protocol, versions 1 and 2: https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt.
import { isIP } from 'node:net'
import { canonical } from './client-address.ts'

/** The header at the beginning of a connection. */
export interface ProxyHeader {
  /** Bytes of the header. What the client has sent follows. */
  readonly length: number
  /** The client's address; undefined if the header has none, and the address of the connection counts. */
  readonly source: string | undefined
}

const V1_START = Buffer.from('PROXY ')
/** Section 2.1: the longest line, with its line break. */
const V1_MAX_BYTES = 107
/** Section 2.2. */
const V2_START = Buffer.from('\r\n\r\n\0\r\nQUIT\n')
/** The signature, version and command, family and protocol, and the length of the rest. */
const V2_FIXED_BYTES = 16

const linePattern =
  /^PROXY (?:UNKNOWN(?: .*)?|TCP(?<version>[46]) (?<source>[\da-fA-F:.]+) (?<destination>[\da-fA-F:.]+) (?<ports>(?:0|[1-9]\d{0,4}) (?:0|[1-9]\d{0,4})))$/s

/** Section 2.1. */
function parseVersion1(bytes: Buffer): ProxyHeader | 'incomplete' | 'malformed' {
  const text = bytes.toString('latin1', 0, V1_MAX_BYTES)
  const end = text.indexOf('\r\n')
  if (end === -1) return bytes.length < V1_MAX_BYTES ? 'incomplete' : 'malformed'
  const match = linePattern.exec(text.slice(0, end))
  if (match === null) return 'malformed'
  const length = end + 2
  const { version, source = '', destination = '', ports = '' } = match.groups ?? {}
  if (version === undefined) return { length, source: undefined }
  const isValid =
    [source, destination].every(address => isIP(address) === Number(version)) &&
    ports.split(' ').every(port => Number(port) <= 65_535)
  return isValid ? { length, source: canonical(source) } : 'malformed'
}

/**
 * Section 2.2. Only TCP over IPv4 and IPv6 have the address of a client. With LOCAL, the family and the rest are ignored.
 * Bytes that are still missing get valid values, so that a fault in the others is found at once.
 */
function parseVersion2(bytes: Buffer): ProxyHeader | 'incomplete' | 'malformed' {
  const [versionAndCommand = 0x20, familyAndProtocol = 0] = bytes.subarray(V2_START.length)
  const isLocal = versionAndCommand === 0x20
  if (!isLocal && versionAndCommand !== 0x21) return 'malformed'
  if (!isLocal && (familyAndProtocol >> 4 > 3 || (familyAndProtocol & 15) > 2)) return 'malformed'
  if (bytes.length < V2_FIXED_BYTES) return 'incomplete'
  const length = V2_FIXED_BYTES + bytes.readUInt16BE(V2_FIXED_BYTES - 2)
  const addressBytes = familyAndProtocol === 0x11 ? 4 : familyAndProtocol === 0x21 ? 16 : 0
  if (isLocal || addressBytes === 0)
    return bytes.length < length ? 'incomplete' : { length, source: undefined }
  // Two addresses and two ports. TLVs can follow; they are skipped.
  if (length < V2_FIXED_BYTES + 2 * addressBytes + 4) return 'malformed'
  if (bytes.length < length) return 'incomplete'
  const address = bytes.subarray(V2_FIXED_BYTES, V2_FIXED_BYTES + addressBytes)
  const source =
    addressBytes === 4 ? address.join('.') : (address.toString('hex').match(/.{4}/g) ?? []).join(':')
  return { length, source: canonical(source) }
}

/** Parses the first bytes of a connection. `incomplete` asks for more of them. */
export function parseProxyHeader(bytes: Buffer): ProxyHeader | 'incomplete' | 'malformed' {
  const startsAs = (start: Buffer) => bytes.subarray(0, start.length).equals(start.subarray(0, bytes.length))
  if (startsAs(V1_START)) return parseVersion1(bytes)
  return startsAs(V2_START) ? parseVersion2(bytes) : 'malformed'
}
