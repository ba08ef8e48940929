// Settings that are addresses, networks and names of hosts.
import { isIP } from 'node:net'
import * as z from 'zod'

/** An address, or a network in CIDR notation. */
export const network = z.string().refine(text => {
  const [address = '', prefix = '0', ...more] = text.split('/')
  const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
  return more.length === 0 && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits && !address.includes('%')
}, 'must be an IP address or a network, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32')

/** A name without a port and without a dot at its end. It becomes lower case. */
export const hostName = z
  .string()
  .regex(/^[\w-]+(?:\.[\w-]+)*$/, 'must be a host name without a port, such as users.example.com')
  .toLowerCase()

/** The address or the host name on which ports listen. */
export const listenHost = z
  .string()
  .min(1)
  .refine(text => !text.startsWith('['), 'must be an address without brackets or a host name, such as ::1')
