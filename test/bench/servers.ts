// The servers that are compared, each started as a process of its own that all are told the same.
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runServer } from '../../src/cli/private-servers/server.ts'
import { createClient } from '../support/http.ts'
import { claimPorts } from '../support/ports.ts'
import { platformaticArgs, platformaticProgram } from './platformatic.ts'

const onOurNode = (...args: string[]) => ({ program: process.execPath, args, isConstant: false })
const script = (name: string) => onOurNode('--import=tsx', fileURLToPath(new URL(name, import.meta.url)))
const service = onOurNode(fileURLToPath(new URL('../../dist/supervisor.js', import.meta.url)))

const programs = {
  service,
  /** The service, with a line in the log for each request. */
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
  /** It answers every user with the same one. */
  readonly isConstant: boolean
  stop(): Promise<void>
}

export interface Surroundings {
  readonly databaseUrl: string
  readonly redisUrl: string
  /** For what a server writes. */
  readonly folder: string
  readonly workers: number
}

/** The service is configured as in production, save for its ports; the others read what they know of it. */
function environment(
  name: ServerName,
  port: number,
  { databaseUrl, redisUrl, folder, workers }: Surroundings,
): NodeJS.ProcessEnv {
  const config = {
    host: '127.0.0.1',
    ports: [{ label: 'http', port, protocol: 'http' }],
    control: { host: '127.0.0.1', offset: 1 },
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
 * Starts a server and waits until it answers for a user.
 * @throws Error with the end of its output where it does not
 */
export async function startServer(name: ServerName, surroundings: Surroundings): Promise<RunningServer> {
  const { program, args, isConstant } = programs[name]
  const claim = await claimPorts()
  const url = `http://127.0.0.1:${claim.first}`
  const ping = async () => {
    const client = createClient(url)
    const { status, text } = await client.get('/v1/users/1').finally(client.close)
    if (status !== 200) throw new Error(text)
  }
  const server = { title: name, program, args, url, ping }
  const { stop } = await runServer(server, environment(name, claim.first, surroundings)).catch(
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

/** Starts them one after the other, runs `work`, and stops them whatever comes of it. */
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
