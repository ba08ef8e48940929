// The ports of the trial cluster on 127.0.0.1. They follow the first one, which is the port of the API.
import { untilFree } from '../../src/core/listen.ts'

export const HOST = '127.0.0.1'
/** The numbers of the nodes, and of the databases. */
export const NUMBERS = [1, 2, 3] as const

export type Ports = ReturnType<typeof portsFrom>

/** Returns the ports. Each node has its own ten, so that the numbers are easy to read. */
export const portsFrom = (first: number) => ({
  api: first,
  /** HAProxy's own page. */
  page: first + 1,
  /** The data port of a node; its control port is the next one. */
  node: (number: number) => first + 10 * number,
  /** The first of the three ports of each database. */
  databases: first + 40,
  /** The first of the ports of the Redis servers, which the ports of the Sentinels follow. */
  redis: first + 50,
})

/** @throws Error that names the first port that another process uses */
export async function assertPortsFree({ api, page, node, databases, redis }: Ports): Promise<void> {
  const ofNodes = NUMBERS.flatMap(number => [node(number), node(number) + 1])
  const ofDatabases = NUMBERS.flatMap((_, index) => [0, 1, 2].map(more => databases + 3 * index + more))
  const ofRedis = NUMBERS.flatMap((_, index) => [redis + index, redis + NUMBERS.length + index])
  for (const port of [api, page, ...ofNodes, ...ofDatabases, ...ofRedis])
    await untilFree({ host: HOST, port }, 'trial cluster').catch(() => {
      throw new Error(`port ${port} is in use: free it, or choose other ports, such as --port ${api + 1000}`)
    })
}
