// The address of the client of a request: that of its connection, or the one that trusted proxies report in `Forwarded`
// (RFC 7239) or `X-Forwarded-For`.
import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIP, isIPv4, SocketAddress } from 'node:net'

/** Returns whether an address, in the form of `canonical`, is that of a trusted proxy. */
export type IsTrusted = (address: string) => boolean

/**
 * Returns the usual form of an address, without the zone of a link-local one: `2001:db8::1`, and `192.0.2.1` also for
 * `::ffff:192.0.2.1`. Returns undefined if the text is no address.
 */
export function canonical(text: string): string | undefined {
  if (isIPv4(text)) return text
  if (isIP(text) === 0) return undefined
  // SocketAddress cuts the text at 39 characters if it has a zone.
  const [withoutZone] = text.split('%', 1)
  const { address } = new SocketAddress({ family: 'ipv6', address: withoutZone })
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice('::ffff:'.length) : address
}

/** @param trusted addresses and networks in CIDR notation; an IPv4 address is also in the IPv6 network `::ffff:0:0/96` */
export function createIsTrusted(trusted: readonly string[]): IsTrusted {
  const list = new BlockList()
  const family = (address: string) => (isIPv4(address) ? 'ipv4' : 'ipv6')
  for (const entry of trusted) {
    const [address = '', prefix] = entry.split('/')
    if (prefix === undefined) list.addAddress(address, family(address))
    else list.addSubnet(address, Number(prefix), family(address))
  }
  return trusted.length === 0 ? () => false : address => list.check(address, family(address))
}

/** An address with or without a port; IPv6 needs brackets if there is a port. A port can be a name such as `_a`. */
const nodePattern = /^(?:\[([^\]]*)\](?::[\w.-]+)?|([\d.]+):[\w.-]+|(.*))$/s

/** Returns the address in a node identifier (RFC 7239, 6); undefined for `unknown` and for obfuscated names. */
function addressIn(node: string): string | undefined {
  const [, bracketed, withPort, alone = ''] = nodePattern.exec(node) ?? []
  return canonical(bracketed ?? withPort ?? alone)
}

/**
 * Yields the elements of a header that is a comma-separated list, the last one first. Empty elements are ignored (RFC 9110,
 * 5.6.1.2). An untrusted client can have written the beginning of the list, for example a quote that is never closed. It
 * must not change how the elements after it are read: an element begins at the last comma that makes it valid.
 */
function* lastFirst(header: string, isElement: (text: string) => boolean): Generator<string, void> {
  let end = header.length
  for (let comma = end; comma !== -1; ) {
    comma = comma === 0 ? -1 : header.lastIndexOf(',', comma - 1)
    const element = header.slice(comma + 1, end).trim()
    if (!isElement(element)) continue
    if (element !== '') yield element
    end = comma
  }
}

/** One `name=value`, whose value is a token or a quoted string (RFC 9110, 5.6). */
const pair = /([\w!#$%&'*+.^`|~-]+)=([\w!#$%&'*+.^`|~-]+|"(?:[^"\\]|\\.)*")/
/** An element of `Forwarded` (RFC 7239, 4): its pairs may be empty. Space around a semicolon is tolerated. */
const elementPattern = new RegExp(`^(?:${pair.source})?(?:[ \\t]*;(?:[ \\t]*${pair.source})?)*$`)
const pairs = new RegExp(pair.source, 'g')

/** Yields the node identifiers of `for`, the last one first; an empty one for an element without `for`. */
function* forwardedNodes(header: string): Generator<string, void> {
  for (const element of lastFirst(header, text => elementPattern.test(text))) {
    const [, , value = ''] =
      [...element.matchAll(pairs)].find(([, name]) => name?.toLowerCase() === 'for') ?? []
    yield value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value
  }
}

/**
 * Returns the address of the client. The headers are read from the right: an address counts only if the hop after it,
 * which has written it, is trusted. The walk ends before text that is no address.
 *
 * If a request has both headers, an address counts only if both agree on it. A proxy that adds to one of them passes the
 * other one on as the client has sent it, and nothing tells which one that is.
 * @param peer the address of the connection
 */
export function clientAddress(peer: string, headers: IncomingHttpHeaders, isTrusted: IsTrusted): string {
  let address = canonical(peer) ?? peer
  const { forwarded } = headers
  // Node.js joins repeated headers to one string.
  const forwardedFor = headers['x-forwarded-for']?.toString()
  const lists: Generator<string, void>[] = []
  if (forwarded !== undefined) lists.push(forwardedNodes(forwarded))
  if (forwardedFor !== undefined) lists.push(lastFirst(forwardedFor, () => true))
  while (isTrusted(address)) {
    const [hop, ...others] = lists.map(list => addressIn(list.next().value ?? ''))
    if (hop === undefined || others.some(other => other !== hop)) break
    address = hop
  }
  return address
}

/** The first three groups of an IPv6 address in its canonical form. */
function firstGroups(address: string): string[] {
  const [head = '', tail = ''] = address.split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':'))
  // An IPv4 address at the end stands for two groups.
  const known = groups(head).length + groups(tail).length + (address.includes('.') ? 1 : 0)
  const zeros = address.includes('::') ? Array<string>(8 - known).fill('0') : []
  return [...groups(head), ...zeros, ...groups(tail)].slice(0, 3)
}

/** Returns the network of an address: /24 of IPv4, /48 of IPv6. */
export function networkOf(address: string): string {
  if (isIPv4(address)) return `${address.slice(0, address.lastIndexOf('.'))}.0/24`
  return `${canonical(`${firstGroups(address).join(':')}::`)}/48`
}
