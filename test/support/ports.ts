// Free ports on the loopback interface, safe among test files and test runs that look for some at the same time.
import net from 'node:net'

// Below the range that the kernel takes for outgoing connections.
const firstPort = 23_000
const blockSize = 10
const blocks = 500

/** Listens on `port`, or gives undefined where somebody else does. */
function listen(port: number): Promise<net.Server | undefined> {
  return new Promise(resolve => {
    const server = net.createServer()
    server.once('error', () => resolve(undefined))
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}

const close = (server: net.Server): Promise<void> => new Promise(resolve => server.close(() => resolve()))

/**
 * Claims nine consecutive free ports. The one before them is listened on for as long as the claim lasts:
 * that is the lock which other processes see.
 * @throws Error where no block is free
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
