// The settings of the proxies in front of the service.
import { isIP } from 'node:net'
import { z } from 'zod'

/** An address, or a network in CIDR notation. */
const network = z.string().refine(text => {
  const [address = '', prefix = '0', ...more] = text.split('/')
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
  return more.length === 0 && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits && !address.includes('%')
}, 'must be an IP address or a network, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32')

/** `trusted`: the proxies whose reports about a client's address are believed. */
export const proxiesSchema = z.strictObject({ trusted: z.array(network) })
