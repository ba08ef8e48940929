// A node of the trial cluster: the service with its settings, as a process.
import { join } from 'node:path'
import { environmentWith } from '../../config/environment.ts'
import { root } from '../../config/root.ts'
import { createPart, type Part } from './part.ts'
import { HOST, type Ports } from './ports.ts'

export interface NodeOptions {
  /** The folder for the state and the log of the node. */
  readonly folder: string
  /** The folder for its control socket. */
  readonly sockets: string
  readonly databaseUrl: string
  readonly redisUrl: string
}

export interface Node extends Part {
  readonly url: string
  readonly controlUrl: string
}

const READY_TIMEOUT_MS = 2000

/** Describes the node with this number. Its service must have been built. */
export function createNode(number: number, ports: Ports, options: NodeOptions): Node {
  const name = `node${number}`
  const port = ports.node(number)
  const { folder, sockets, databaseUrl, redisUrl } = options
  const controlUrl = `http://${HOST}:${port + 1}`
  const settings = {
    node: name,
    host: HOST,
    ports: [{ label: 'http', port, protocol: 'http' }],
    control: { host: HOST, offset: 1, socket: join(sockets, `${name}.sock`) },
    stateFile: join(folder, `${name}-state.json`),
    workers: 1,
    // HAProxy checks twice a second.
    drain: { delayMs: 2000 },
    proxies: { trusted: [HOST] },
  }
  const server = {
    title: name,
    program: process.execPath,
    args: [join(root, 'dist', 'supervisor.js')],
    url: `http://${HOST}:${port}`,
    async ping() {
      const response = await fetch(`${controlUrl}/readyz`, { signal: AbortSignal.timeout(READY_TIMEOUT_MS) })
      await response.body?.cancel()
      // 404: the port is in maintenance, which outlives a restart.
      if (response.status !== 200 && response.status !== 404)
        throw new Error(`${controlUrl}/readyz answers ${response.status}`)
    },
  }
  const env = environmentWith({
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
    NODE_CONFIG: JSON.stringify(settings),
    NODE_ENV: undefined,
    WORKERS: undefined,
  })
  const part = createPart(name, server.url, server, { env, logFile: join(folder, `${name}.log`) })
  return { ...part, url: server.url, controlUrl }
}
