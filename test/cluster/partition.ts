// Separates one database server from the others of its group, while the nodes still reach all of them. It changes the packet
// filter, so it needs a network namespace of its own.
import { execFile } from 'node:child_process'
import { networkInterfaces } from 'node:os'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Whether this process is in a network namespace of its own, which has no interface but the loopback one. */
export const hasOwnNetwork = () => Object.keys(networkInterfaces()).every(name => name === 'lo')

/** Drops the packets that match. @returns a function that ends this */
async function drop(...match: string[]): Promise<() => Promise<unknown>> {
  const change = (command: '-A' | '-D') =>
    run('iptables', ['--wait', command, 'INPUT', '-p', 'tcp', ...match, '-j', 'DROP'])
  await change('-A')
  return () => change('-D')
}

/** Returns the local ports of the connections that a process has opened to one of `ports`. */
async function portsTo(ports: readonly number[], pid: number): Promise<number[]> {
  const { stdout } = await run('ss', ['--no-header', '--tcp', '--numeric', '--processes'])
  return stdout.split('\n').flatMap(line => {
    const [, local, remote] = /:(\d+) +\S+:(\d+) .*/.exec(line) ?? []
    return line.includes(`pid=${pid},`) && ports.includes(Number(remote)) ? [Number(local)] : []
  })
}

/**
 * Drops all packets between a server and the others.
 * @param server its process and the port on which the others reach it
 * @param others the ports on which it reaches the others
 * @returns a function that ends this
 */
export async function separate(server: { pid: number; port: number }, others: readonly number[]) {
  // The others keep their connections with each other. They need no new ones meanwhile.
  const allowNew = await drop('--syn', '--match', 'multiport', '--dports', others.join())
  const ports = [server.port, ...(await portsTo(others, server.pid))]
  const allow = await drop('--match', 'multiport', '--ports', ports.join())
  return () => Promise.all([allowNew(), allow()])
}
