// Starts the compared servers, each as a separate process with the same environment variables.
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runServer } from '../../src/cli/private-servers/server.ts'
import { createClient } from '../support/http.ts'
import { claimPorts } from '../support/ports.ts'
import { platformaticArgs, platformaticProgram } from './platformatic.ts'

const nodeProgram = (...args: string[]) => ({ program: process.execPath, args, isConstant: false })
const script = (name: string) => nodeProgram('--import=tsx', fileURLToPath(new URL(name, import.meta.url)))
const service = nodeProgram(fileURLToPath(new URL('../../dist/supervisor.js', import.meta.url)))

const programs = {
  service,
  /** The service with request logging. */
  logging: service,
  bare: script('./bare.ts'),
  conventional: script('./conventional.ts'),
  constant: { ...script('./constant.ts'), isConstant: true },
  cluster: { ...script('./cluster.ts'), isConstant: true },
  platformatic: { program: platformaticProgram, args: platformaticArgs, isConstant: false },
}

export type ServerName = keyof typeof programs

export interface RunningServer {
  readonly name: ServerName
  readonly url: string
  /** Whether the server returns the same response for every user. */
  readonly isConstant: boolean
  stop(): Promise<void>
}

export interface ServerSettings {
  readonly databaseUrl: string
  readonly redisUrl: string
  /** Folder for files that a server writes. */
  readonly folder: string
  readonly workers: number
}

/**
 * Returns the environment of a server. The service runs with the production settings, except for its ports, files
 * and drain delay; the other servers use only some of the variables.
 */
function environment(
  name: ServerName,
  port: number,
  { databaseUrl, redisUrl, folder, workers }: ServerSettings,
): NodeJS.ProcessEnv {
  const config = {
    host: '127.0.0.1',
    ports: [{ label: 'http', port, protocol: 'http' }],
    control: { host: '127.0.0.1', offset: 1, socket: join(folder, `control-${port}.sock`) },
    stateFile: join(folder, `state-${port}.json`),
    drain: { delayMs: 0 },
  }
  return {
    ...process.env,
    NODE_ENV: 'production',
    NODE_CONFIG: JSON.stringify(config),
    PORT: String(port),
    WORKERS: String(workers),
    LOG_LEVEL: name === 'logging' ? 'info' : 'warn',
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
  }
}

/**
 * Starts a server and waits until it responds to a request for a user.
 * @throws Error with the end of the server's output if it does not
 */
export async function startServer(name: ServerName, settings: ServerSettings): Promise<RunningServer> {
  const { program, args, isConstant } = programs[name]
  const claim = await claimPorts()
  const url = `http://127.0.0.1:${claim.first}`
  const ping = async () => {
    const client = createClient(url)
    const { status, text } = await client.get('/v1/users/1').finally(client.close)
    if (status !== 200) throw new Error(text)
  }
  const server = { title: name, program, args, url, ping }
  const { stop } = await runServer(server, { env: environment(name, claim.first, settings) }).catch(
    async error => {
      await claim.release()
      throw error
    },
  )
  return {
    name,
    url,
    isConstant,
    async stop() {
      await stop()
      await claim.release()
    },
  }
}

/** Starts the servers in sequence, runs `work`, and stops the servers even if `work` fails. */
export async function withServers<T>(
  starts: readonly (() => Promise<RunningServer>)[],
  work: (servers: readonly RunningServer[]) => Promise<T>,
): Promise<T> {
  const running: RunningServer[] = []
  try {
    for (const start of starts) running.push(await start())
    return await work(running)
  } finally {
    await Promise.all(running.map(server => server.stop()))
  }
}
