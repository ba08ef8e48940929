// A cluster of database servers on this machine, for trials and tests: what Galera and Group Replication have in common.
import { randomBytes } from 'node:crypto'
import { cp, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { socketFolder } from '../../src/cli/private-servers/folders.ts'
import type { PrivateServer } from '../../src/cli/private-servers/server.ts'
import { executeOn } from '../support/execute.ts'
import type { ClusterOptions, ClusterServer } from './restartable.ts'

export interface DatabaseCluster {
  /** The name for messages, such as "MariaDB 10.11.6 with Galera". */
  readonly title: string
  readonly servers: readonly ClusterServer[]
  stop(): Promise<void>
}

/** Where a server of a cluster has its files and its ports. */
export interface Place {
  /** 1 for the first server. */
  readonly number: number
  readonly data: string
  /** Only its owner can enter it. */
  readonly folder: string
  readonly socketPath: string
  readonly port: number
  /** Two ports for the traffic between the servers. */
  readonly clusterPort: number
  readonly transferPort: number
  readonly url: string
}

const USER = 'cluster'

/** Deletes a previous cluster and creates the folders. @returns the places, and SQL that creates the user of their URLs */
export async function createPlaces({ base, count, firstPort }: ClusterOptions) {
  await rm(base, { recursive: true, force: true })
  // The ports of 127.0.0.1 are open to all users of the machine.
  const password = randomBytes(16).toString('hex')
  const createPlace = async (number: number): Promise<Place> => {
    const own = join(base, `server${number}`)
    await mkdir(own, { recursive: true, mode: 0o700 })
    const folder = await socketFolder(own)
    const port = firstPort + 3 * (number - 1)
    return {
      number,
      data: join(own, 'data'),
      folder,
      socketPath: join(folder, 'mysql.sock'),
      port,
      clusterPort: port + 1,
      transferPort: port + 2,
      url: `mysql://${USER}:${password}@127.0.0.1:${port}/`,
    }
  }
  const first = await createPlace(1)
  const places = [first]
  for (let number = 2; number <= count; number++) places.push(await createPlace(number))
  const createUser = [
    `CREATE USER ${USER}@'%' IDENTIFIED BY '${password}'`,
    `GRANT ALL ON *.* TO ${USER}@'%' WITH GRANT OPTION`,
  ]
  return { first, places, password, createUser }
}

/**
 * Starts the servers of a cluster one after the other. The first one creates the cluster, and the others join it.
 * @throws Error if a server does not start; then the others are stopped
 */
export async function startServers(
  title: string,
  servers: readonly ClusterServer[],
  print: (line: string) => void,
): Promise<DatabaseCluster> {
  const stop = async () => {
    await Promise.all(servers.map(server => server.stop()))
  }
  try {
    for (const [index, server] of servers.entries()) {
      print(`starting server ${index + 1} of ${servers.length}`)
      await server.start()
    }
  } catch (error) {
    await stop()
    throw error
  }
  return { title, servers, stop }
}

/** Copies the data folder of the first place to the others, so that they need no complete transfer from it. */
export async function copyData([first, ...others]: readonly Place[]): Promise<void> {
  if (first !== undefined) for (const { data } of others) await cp(first.data, data, { recursive: true })
}

/** The arguments that both kinds of servers have. */
export const commonArgs = ({ data, folder, socketPath, port }: Place): string[] => [
  '--no-defaults',
  `--datadir=${data}`,
  `--tmpdir=${folder}`,
  `--socket=${socketPath}`,
  `--pid-file=${join(folder, 'mysql.pid')}`,
  '--bind-address=127.0.0.1',
  `--port=${port}`,
  '--skip-name-resolve',
  '--character-set-server=utf8mb4',
  '--max-connections=500',
  '--innodb-buffer-pool-size=64M',
  // Committed data survive a crash of the server, but not of the machine.
  '--innodb-flush-log-at-trx-commit=2',
]

/** Executes statements as `root`, on the socket of a server. @returns the rows, or the result, of the last one */
export const executeAsRoot = ({ socketPath }: Place, ...statements: string[]): Promise<unknown> =>
  executeOn(
    `mysql://root@localhost/?${new URLSearchParams({ socketPath, connectTimeout: '2000' })}`,
    ...statements,
  )

/** Describes a server that responds when it can execute `ping`. */
export const describeServer = (
  title: string,
  program: string,
  args: readonly string[],
  place: Place,
  ping: string,
): PrivateServer => ({
  title: `${title}, server ${place.number}`,
  program,
  args,
  url: place.url,
  ping: async () => {
    await executeAsRoot(place, ping)
  },
})
