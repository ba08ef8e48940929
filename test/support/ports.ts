// Finds free ports on the loopback interface. Concurrent test files and test runs never get the same ones.
import net from 'node:net'

// Below the kernel's range of ephemeral ports.
const firstPort = 23_000
const blockSize = 10
const blocks = 500

/** Listens on `port`. @returns undefined if the port is in use */
function listen(port: number): Promise<net.Server | undefined> {
  return new Promise(resolve => {
    const server = net.createServer()
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}

const close = (server: net.Server): Promise<void> => new Promise(resolve => server.close(() => resolve()))

/**
 * Claims nine consecutive free ports. The port before them is the lock that other processes see: it is listened on
 * until `release` is called.
 * @throws Error if no block of ports is free
 */
export async function claimPorts(): Promise<{ first: number; release(): Promise<void> }> {
  const start = Math.floor(Math.random() * blocks)
  for (let tried = 0; tried < blocks; tried++) {
    const base = firstPort + ((start + tried) % blocks) * blockSize
    const lock = await listen(base)
    if (lock === undefined) continue
    const rest = Array.from({ length: blockSize - 1 }, (_, index) => base + 1 + index)
    const servers = await Promise.all(rest.map(listen))
    await Promise.all(servers.filter(server => server !== undefined).map(close))
    if (servers.every(server => server !== undefined)) {
      lock.unref()
      return { first: base + 1, release: () => close(lock) }
    }
    await close(lock)
  }
  throw new Error(`no free ports between ${firstPort} and ${firstPort + blocks * blockSize}`)
}
