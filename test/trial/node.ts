// A node of the trial cluster: the service with its settings, as a process.
import { join } from 'node:path'
import { environmentWith } from '../../src/config/environment.ts'
import { statusOf } from './part.ts'
import { HOST, type Ports } from './ports.ts'
import { createRestartable } from './restartable.ts'

export interface NodeOptions {
  readonly build: Build
  /** The folder for the state and the log of the node. */
  readonly folder: string
  /** The folder for its control socket. */
  readonly sockets: string
  readonly databaseUrl: string
  readonly redisUrl: string
}

/** One version of the service, built. */
export interface Build {
  /** The folder with `dist/`. */
  readonly folder: string
  /** Brings a database to the schema of this version. */
  migrate(url: string): Promise<unknown>
}

export type Node = ReturnType<typeof createNode>

/** Describes the node with this number. */
export function createNode(number: number, ports: Ports, options: NodeOptions) {
  const name = `node${number}`
  const port = ports.node(number)
  const { folder, sockets, databaseUrl, redisUrl } = options
  const url = `http://${HOST}:${port}`
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
  let { build } = options
  const describe = () => ({
    title: name,
    program: process.execPath,
    args: [join(build.folder, 'dist', 'supervisor.js')],
    url,
    async ping() {
      const status = await statusOf(`${controlUrl}/readyz`)
      // 404: the port is in maintenance, which outlives a restart.
      if (status !== 200 && status !== 404) throw new Error(`${controlUrl}/readyz answers ${status}`)
    },
  })
  const env = environmentWith({
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
    NODE_CONFIG: JSON.stringify(settings),
    NODE_ENV: undefined,
    WORKERS: undefined,
  })
  return {
    ...createRestartable(describe, { env, logFile: join(folder, `${name}.log`) }),
    name,
    address: url,
    url,
    controlUrl,
    /** Makes the next start run another build. */
    use(next: Build): void {
      build = next
    },
  }
}
