// Two services behind a real HAProxy, with a rolling restart.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSocketOperator } from './control-socket.ts'
import { type ServerName, startHaproxy } from './haproxy.ts'
import { createOperator } from './operator.ts'
import { claimPorts } from './ports.ts'
import { createDatabase, type Service, startService } from './service.ts'

const names = ['A', 'B'] as const

export type Pair = Awaited<ReturnType<typeof startPair>>

export interface PairOptions {
  database?: string
  env?: NodeJS.ProcessEnv
  /** Interval of HAProxy's health checks, in its notation. Three checks must fit into `delayMs`. */
  checkEvery: string
  delayMs: number
  /** Number of workers of each service; 2 by default. */
  workers?: number
  /** Whether HAProxy sends a PROXY header on its connections to the data ports. */
  proxyProtocol?: boolean
  /** Changes the text of haproxy.cfg. */
  edit?: (text: string) => string
}

/** Adds `option` to the servers in haproxy.cfg. @throws Error if there are none */
export function withServerOption(text: string, option: string): string {
  const edited = text.replaceAll('default-server check', `default-server ${option} check`)
  if (edited === text) throw new Error('haproxy.cfg has no default-server')
  return edited
}

export async function startPair({
  checkEvery,
  delayMs,
  env = {},
  proxyProtocol = false,
  workers = 2,
  edit = text => text,
  ...given
}: PairOptions) {
  const database = given.database ?? (await createDatabase())
  const claim = await claimPorts()
  const folder = await mkdtemp(join(tmpdir(), 'users-api-pair-'))
  const port = (server: ServerName, label: 'http' | 'https') =>
    claim.first + 4 * names.indexOf(server) + (label === 'http' ? 0 : 2)

  function start(name: ServerName): Promise<Service> {
    return startService({
      database,
      env,
      workers,
      config: {
        ports: (['http', 'https'] as const).map(label => ({
          label,
          port: port(name, label),
          protocol: label,
          proxyProtocol,
        })),
        stateFile: join(folder, `${name}.json`),
        // On a loaded machine, a client can pause for longer than a second between two requests on its connection.
        drain: { delayMs, idleMs: 3000 },
        proxies: { trusted: ['127.0.0.1'] },
      },
    })
  }
  const services = { A: await start('A'), B: await start('B') }
  const haproxy = await startHaproxy(port, checkEvery, text =>
    edit(proxyProtocol ? withServerOption(text, 'send-proxy-v2') : text),
  )

  const untilUp = async (name: ServerName): Promise<void> => {
    for (const label of ['http', 'https'] as const) await haproxy.until(label, name, 'UP')
  }
  for (const name of names) await untilUp(name)

  return {
    haproxy,
    operator: (name: ServerName) => createOperator(services[name]),

    stopService: (name: ServerName) => services[name].stop(),

    /** Starts a service that was stopped. Its data ports keep their maintenance. */
    async startService(name: ServerName): Promise<void> {
      services[name] = await start(name)
    },

    /**
     * Runs drain, wait, stop, start and resume on one service. The http port is drained by its failing check, the https
     * port by refusing connections.
     * @param through the way of the commands
     */
    async restart(name: ServerName, through: 'pm2' | 'socket'): Promise<void> {
      const operator = () =>
        through === 'pm2' ? createOperator(services[name]) : createSocketOperator(services[name].socket)
      const before = operator()
      await before.run('drain', 'http:404')
      await before.run('drain', 'https:refuse')
      for (const label of ['http', 'https']) {
        const { ended } = await before.run('wait', label)
        if (ended !== 'drained') throw new Error(`${label} of ${name} did not drain before the deadline`)
      }
      await services[name].stop()
      services[name] = await start(name)
      const after = operator()
      for (const label of ['http', 'https']) await after.run('resume', label)
      await untilUp(name)
    },

    async stop(): Promise<void> {
      await Promise.all(names.map(name => services[name].stop()))
      await haproxy.stop()
      await claim.release()
      await rm(folder, { recursive: true })
    },
  }
}
