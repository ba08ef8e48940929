// A trial of several nodes on this machine: three nodes of the service behind HAProxy, a cluster of three databases, and Redis
// with Sentinel.
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { migrateWhenUp } from '../../src/cli/preflight.ts'
import { socketFolder } from '../../src/cli/private-servers/folders.ts'
import { installMissing, redisProgram } from '../../src/cli/private-servers/programs.ts'
import { withDatabase } from '../../src/config/host-urls.ts'
import { root } from '../../src/config/root.ts'
import { galeraProgram, haproxyProgram, mariadbProgram } from '../support/programs.ts'
import type { DatabaseCluster } from './database-cluster.ts'
import { startGalera } from './galera.ts'
import { startGroupReplication } from './group-replication.ts'
import { createHaproxy } from './haproxy.ts'
import { type Build, createNode } from './node.ts'
import type { Part } from './part.ts'
import { assertPortsFree, HOST, NUMBERS, portsFrom } from './ports.ts'
import type { ClusterServer } from './restartable.ts'
import { startSentinelGroup } from './sentinel.ts'

const DATABASE = 'users_api'

export interface TrialOptions {
  /** The folder for all files. The databases and the logs of a previous trial are deleted. */
  readonly base: string
  /** The port of the API. The other ports follow it. */
  readonly firstPort: number
  /** MySQL with Group Replication and one primary, instead of MariaDB with Galera. */
  readonly mysql: boolean
  /** The build that creates the schema and that the nodes run; by default, this one, which must have been built. */
  readonly build?: Build
  /** Called with a line before each step. An error that it throws ends the start. */
  readonly print: (line: string) => void
}

export type Trial = Awaited<ReturnType<typeof startTrial>>

async function startDatabases({ base, firstPort, mysql, print }: TrialOptions): Promise<DatabaseCluster> {
  const options = {
    base: join(base, 'databases'),
    count: NUMBERS.length,
    firstPort: portsFrom(firstPort).databases,
    print,
  }
  return mysql ? startGroupReplication({ ...options, multiPrimary: false }) : startGalera(options)
}

/** Returns the build that this code belongs to. */
export const ownBuild = (print: (line: string) => void): Build => ({
  folder: root,
  migrate: url => migrateWhenUp(url, print),
})

/** Describes servers that run already. */
const partsOf = (name: string, servers: readonly ClusterServer[]): Part[] =>
  servers.map((server, index) => ({
    ...server,
    name: `${name}${index + 1}`,
    address: new URL(server.url).host,
  }))

/** Returns the URL that names all databases, beginning with the one at `index`. */
function urlFrom(urls: readonly string[], index: number): string {
  const [own = ''] = urls
  const hosts = [...urls.slice(index), ...urls.slice(0, index)].map(url => new URL(url).host)
  return own.replace(new URL(own).host, hosts.join())
}

/**
 * Starts everything. If a step fails, what has been started is stopped.
 * @throws Error that says what is missing, or why a server does not start
 */
export async function startTrial(options: TrialOptions) {
  const { base, firstPort, mysql, print, build = ownBuild(print) } = options
  const ports = portsFrom(firstPort)
  await assertPortsFree(ports)
  await installMissing(
    [haproxyProgram, redisProgram, ...(mysql ? [] : [mariadbProgram, galeraProgram])],
    print,
  )
  const folder = join(base, 'nodes')
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const sockets = await socketFolder(base)

  const stops: (() => Promise<void>)[] = []
  const stop = async () => {
    while (stops.length > 0) await stops.pop()?.()
  }
  const start = async (parts: readonly Part[]) => {
    stops.push(async () => {
      await Promise.all(parts.map(part => part.stop()))
    })
    await Promise.all(parts.map(part => part.start()))
  }
  try {
    const cluster = await startDatabases(options)
    stops.push(() => cluster.stop())
    const databases = partsOf('database', cluster.servers)
    const databaseUrls = cluster.servers.map(({ url }) => withDatabase(url, DATABASE))
    const databaseUrl = urlFrom(databaseUrls, 0)
    await build.migrate(databaseUrl)

    const group = await startSentinelGroup({
      base: join(base, 'redis'),
      count: NUMBERS.length,
      firstPort: ports.redis,
      print,
    })
    stops.push(() => group.stop())
    const redis = partsOf('redis', group.servers)
    const sentinels = partsOf('sentinel', group.sentinels)

    print(`starting ${NUMBERS.length} nodes of the service`)
    const nodes = NUMBERS.map((number, index) =>
      createNode(number, ports, {
        build,
        folder,
        sockets,
        databaseUrl: urlFrom(databaseUrls, index),
        redisUrl: group.url,
      }),
    )
    await start(nodes)

    print(`starting ${haproxyProgram.title}`)
    const haproxy = createHaproxy(ports, folder, sockets)
    await start([haproxy])
    const parts: readonly Part[] = [haproxy, ...nodes, ...databases, ...redis, ...sentinels]
    return {
      base,
      /** The API behind HAProxy. */
      url: `http://${HOST}:${ports.api}`,
      /** The URL that names all databases. */
      databaseUrl,
      /** The name and the version of the databases. */
      title: cluster.title,
      nodes,
      databases,
      /** The URLs of the databases, each with one host. */
      databaseUrls,
      /** The first one is the master at the start. */
      redis,
      sentinels,
      haproxy,
      /** All of the above. */
      parts,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
