// The listening sockets that systemd passes to the supervisor (sd_listen_fds(3)). They stay open while the service restarts:
// connections wait in their queues.
import net, { type Server } from 'node:net'
import { type Config, ConfigError } from '../config/config.ts'
import { type Address, hostAndPort, resolveHost } from '../core/listen.ts'

declare module 'node:net' {
  /** Returns a handle of an open socket; a negative number is a system error. Internal to Node.js, like the other form. */
  function _createServerHandle(address: null, port: 0, family: -1, fd: number): Inherited | number
}

/** A handle of a listening socket. Sockets that are not TCP have no `getsockname`. */
interface Inherited extends Server {
  getsockname?(name: { address?: string; port?: number }): number
}

/** The first descriptor that systemd passes. */
const FIRST = 3

const wildcards = ['0.0.0.0', '::']

/** By label. */
export type SocketsByLabel = ReadonlyMap<string, Server>

/** A socket of all IPv6 addresses usually has the IPv4 ones, too (ipv6(7)). */
const isSame = (one: Address, other: Address): boolean =>
  one.port === other.port &&
  (one.host === other.host || (wildcards.includes(one.host) && wildcards.includes(other.host)))

function open(fd: number): Address & { socket: Server } {
  const socket = net._createServerHandle(null, 0, -1, fd)
  const name: { address?: string; port?: number } = {}
  if (typeof socket === 'number' || socket.getsockname?.(name) !== 0)
    throw new ConfigError([
      `descriptor ${fd} from systemd is not a TCP socket; use ListenStream=<address>:<port>`,
    ])
  return { socket, host: name.address ?? '', port: name.port ?? 0 }
}

/**
 * Returns the sockets of the data and control ports, matched by their addresses.
 * @param count the number of descriptors that systemd passes
 * @throws ConfigError if a descriptor is not a TCP socket, or has the address of no port or of one that has a socket already;
 *   FatalError for an unknown host
 */
export async function takeSockets(
  count: number,
  { host, ports, control }: Pick<Config, 'host' | 'ports' | 'control'>,
) {
  const taken = { data: new Map<string, Server>(), control: new Map<string, Server>() }
  if (count === 0) return taken
  const port = ports[0]?.port ?? 0
  const { address: dataIp } = await resolveHost({ host, port }, 'data ports')
  const { address: controlIp } = await resolveHost(
    { host: control.host, port: port + control.offset },
    'control ports',
  )
  let wanted = ports.flatMap(({ label, port }) => [
    { sockets: taken.data, label, host: dataIp, port },
    { sockets: taken.control, label, host: controlIp, port: port + control.offset },
  ])
  for (let fd = FIRST; fd < FIRST + count; fd++) {
    const { socket, ...address } = open(fd)
    const port = wanted.find(one => isSame(address, one))
    if (port === undefined)
      throw new ConfigError([
        `the socket ${hostAndPort(address)} from systemd matches no port; ports without a socket: ${wanted.map(hostAndPort).join(', ') || 'none'}; correct ListenStream in the .socket unit, or host, control.host and ports`,
      ])
    port.sockets.set(port.label, socket)
    wanted = wanted.filter(one => one !== port)
  }
  return taken
}
