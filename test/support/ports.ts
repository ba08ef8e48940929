// Finds free ports on the loopback interface. Concurrent test files and test runs never get the same ones.
import { once } from 'node:events'
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

/** Claims the block that begins with the port `base`. @returns undefined if one of its ports is in use */
async function claimBlock(base: number): Promise<net.Server | undefined> {
  const lock = await listen(base)
  if (lock === undefined) return undefined
  const rest = Array.from({ length: blockSize - 1 }, (_, index) => base + 1 + index)
  const servers = await Promise.all(rest.map(listen))
  await Promise.all(servers.filter(server => server !== undefined).map(close))
  if (servers.every(server => server !== undefined)) return lock.unref()
  await close(lock)
  return undefined
}

/**
 * Claims nine consecutive free ports, or with `count` as many blocks of nine ports, each ten ports after the one before. The
 * port before each block is the lock that other processes see: it is listened on until `release` is called.
 * @throws Error if not enough ports are free
 */
export async function claimPorts(count = 1): Promise<{ first: number; release(): Promise<void> }> {
  const start = Math.floor(Math.random() * blocks)
  for (let tried = 0; tried < blocks; tried++) {
    const base = firstPort + ((start + tried) % (blocks - count + 1)) * blockSize
    const bases = Array.from({ length: count }, (_, index) => base + index * blockSize)
    const locks = (await Promise.all(bases.map(claimBlock))).filter(lock => lock !== undefined)
    const release = async () => {
      await Promise.all(locks.map(close))
    }
    if (locks.length === count) return { first: base + 1, release }
    await release()
  }
  throw new Error(`no free ports between ${firstPort} and ${firstPort + blocks * blockSize}`)
}

/** Listens on any free port of 127.0.0.1. @returns the port */
export async function listenOnFreePort(server: net.Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return address.port
}
