// Starts the compared servers, each as a separate process with the same environment variables.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createToken } from '../../src/api/callers/api-keys.ts'
import { runServer } from '../../src/cli/private-servers/server.ts'
import { root } from '../../src/config/root.ts'
import { createClient } from '../support/http.ts'
import { apiKey, audience, claims, createKey, issuer, keySet, sign } from '../support/issuer.ts'
import { claimPorts } from '../support/ports.ts'
import { platformaticArgs, platformaticProgram } from './platformatic.ts'

const nodeProgram = (...args: string[]) => ({ program: process.execPath, args, isConstant: false })
const script = (name: string) => nodeProgram('--import=tsx', fileURLToPath(new URL(name, import.meta.url)))
const supervisor = (build: string) => join(build, 'dist/supervisor.js')
const service = nodeProgram(supervisor(root))

const programs = {
  service,
  /** The service with request logging. */
  logging: service,
  /** The service without a change feed. */
  'no-feed': service,
  /** The service on a database without the columns and indexes of the search. */
  'no-search': service,
  /** The service with callers: its clients send an API key or a JWT. */
  'auth-key': service,
  'auth-jwt': service,
  bare: script('./bare.ts'),
  conventional: script('./conventional.ts'),
  constant: { ...script('./constant.ts'), isConstant: true },
  cluster: { ...script('./cluster.ts'), isConstant: true },
  'cluster-tls': { ...script('./cluster-tls.ts'), isConstant: true },
  platformatic: { program: platformaticProgram, args: platformaticArgs, isConstant: false },
}

export type ServerName = keyof typeof programs

export interface RunningServer {
  readonly name: ServerName
  readonly url: string
  /** Whether the server returns the same response for every user. */
  readonly isConstant: boolean
  /** The headers of every request. */
  readonly headers: Readonly<Record<string, string>>
  readonly pid: () => number | undefined
  stop(): Promise<void>
}

export interface ServerSettings {
  readonly databaseUrl: string
  readonly redisUrl: string
  /** Folder for files that a server writes. */
  readonly folder: string
  readonly workers: number
  /** A PEM file with a certificate and its key. With it, the server speaks TLS. */
  readonly certificate?: string | undefined
  /** The folder with the build of the service; by default this one. */
  readonly build?: string | undefined
  /** The Node program that runs the server, and its options; by default that of this process. */
  readonly node?: readonly string[]
}

/** Returns the callers that a server knows, and the headers of one of them. */
async function credentialsOf(
  name: ServerName,
  folder: string,
): Promise<{ auth?: object; headers: Record<string, string> }> {
  const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })
  if (name === 'auth-key') {
    const token = createToken()
    return { auth: { keys: [apiKey('bench', 'write', token)] }, headers: bearer(token) }
  }
  if (name !== 'auth-jwt') return { headers: {} }
  const key = await createKey('bench', 'RS256')
  const jwks = join(folder, 'jwks.json')
  await writeFile(jwks, await keySet(key))
  return { auth: { jwt: { jwks, issuer, audience } }, headers: bearer(await sign(key, claims())) }
}

/**
 * Returns the environment of a server. The service runs with the production settings, except for its ports, files
 * and drain delay; the other servers use only some of the variables.
 */
function environment(
  name: ServerName,
  port: number,
  { databaseUrl, redisUrl, folder, workers, certificate }: ServerSettings,
  auth: object | undefined,
): NodeJS.ProcessEnv {
  const config = {
    host: '127.0.0.1',
    ports: [
      certificate === undefined
        ? { label: 'http', port, protocol: 'http' }
        : { label: 'https', port, protocol: 'https', certificate, key: certificate },
    ],
    control: { host: '127.0.0.1', offset: 1, socket: join(folder, `control-${port}.sock`) },
    stateFile: join(folder, `state-${port}.json`),
    drain: { delayMs: 0 },
    ...(name === 'no-feed' && { changes: { keepSeconds: 0 } }),
    ...(auth !== undefined && { auth }),
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
    ...(certificate !== undefined && { CERTIFICATE: certificate }),
  }
}

/**
 * Starts a server and waits until it responds to a request for a user.
 * @throws Error with the end of the server's output if it does not
 */
export async function startServer(name: ServerName, settings: ServerSettings): Promise<RunningServer> {
  const { isConstant } = programs[name]
  const args = settings.build === undefined ? programs[name].args : [supervisor(settings.build)]
  const [program = programs[name].program, ...options] = settings.node ?? []
  const { auth, headers } = await credentialsOf(name, settings.folder)
  const claim = await claimPorts()
  const url = `${settings.certificate === undefined ? 'http' : 'https'}://127.0.0.1:${claim.first}`
  const ping = async () => {
    const client = createClient(url)
    const { status, text } = await client.get('/v1/users/1', headers).finally(client.close)
    if (status !== 200) throw new Error(text)
  }
  const server = { title: name, program, args: [...options, ...args], url, ping }
  const { stop, pid } = await runServer(server, {
    env: environment(name, claim.first, settings, auth),
  }).catch(async error => {
    await claim.release()
    throw error
  })
  return {
    name,
    url,
    isConstant,
    headers,
    pid,
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
