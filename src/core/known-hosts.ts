// Which Host headers a server answers. A page in a browser can change the DNS record of its own name to a loopback address
// and then read what a server there responds, as if it were the page's own (DNS rebinding). Such a name has a dot.
import { lookup } from 'node:dns/promises'
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv4 } from 'node:net'

/** @param host the host that the request names; undefined if it names none, as in HTTP/1.0 */
export type IsKnownHost = (host: string | undefined) => boolean

/** Returns the host that the request names: that of a target in absolute form replaces Host (RFC 9112, 3.2.2). */
export const namedHost = ({ url = '', headers }: IncomingMessage): string | undefined =>
  /^https?:\/\/([^/?#]*)/i.exec(url)?.[1] ?? headers.host

/** The message of the error for other hosts. */
export const unknownHost =
  'Host: must be localhost, an IP address, a name without a dot, or one of the names in the setting hosts, because the server listens on a loopback address'

const loopback = new BlockList()
// Also `::ffff:127.0.0.1`, and every spelling of `::1`.
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** @param address an address or a name */
export const isLoopback = (address: string): boolean =>
  isIP(address) === 0
    ? /^(?:localhost|127\..*)$/i.test(address)
    : loopback.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')

/**
 * @param listensOn the address or the name that the server listens on; unless it is a loopback one, every host is known
 * @param names further names in lower case, without ports
 */
export async function createIsKnownHost(listensOn: string, names: readonly string[]): Promise<IsKnownHost> {
  // Names can have a loopback address, too: on Debian, that of the machine does.
  const { address } = await lookup(listensOn).catch(() => ({ address: listensOn }))
  if (!isLoopback(address)) return () => true
  return (host = '') => {
    if (!host.includes('.') || host.startsWith('[')) return true
    const name = host.toLowerCase().replace(/\.?(?::\d*)?$/, '')
    return isIPv4(name) || /(?:^|\.)localhost$/.test(name) || names.includes(name)
  }
}
