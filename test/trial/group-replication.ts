// Runs a Group Replication group of MySQL servers on this machine.
import { randomUUID } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createDataFolder, findInstallation, userArgs } from '../../src/cli/private-servers/mysql.ts'
import { hasCode } from '../../src/core/error-reason.ts'
import { retry } from '../../src/core/retry.ts'
import {
  commonArgs,
  copyData,
  createPlaces,
  type DatabaseCluster,
  describeServer,
  executeAsRoot,
  type Place,
  startServers,
} from './database-cluster.ts'
import { type ClusterOptions, createRestartable } from './restartable.ts'

/** An attempt takes 10 s on a busy machine, and up to 60 s if the group does not answer: time for several ones. */
const ONLINE_TIMEOUT_MS = 200_000

export interface GroupOptions extends ClusterOptions {
  /** Whether all servers accept writes, or only one of them. */
  readonly multiPrimary: boolean
}

export function groupArgs(
  place: Place,
  places: readonly Place[],
  group: string,
  multiPrimary: boolean,
): string[] {
  const address = (one: Place) => `127.0.0.1:${one.clusterPort}`
  const settings = {
    'group-name': group,
    'local-address': address(place),
    'group-seeds': places.map(address).join(),
    'start-on-boot': 'OFF',
    'recovery-get-public-key': 'ON',
    // A server that is gone leaves the group at once, and a server without most of its peers refuses writes after 5 s.
    'member-expel-timeout': 0,
    'unreachable-majority-timeout': 5,
    'message-cache-size': 2 ** 27,
    'single-primary-mode': multiPrimary ? 'OFF' : 'ON',
    'enforce-update-everywhere-checks': multiPrimary ? 'ON' : 'OFF',
  }
  return [
    ...commonArgs(place),
    ...userArgs,
    '--mysqlx=OFF',
    '--secure-file-priv=NULL',
    '--innodb-redo-log-capacity=32M',
    `--server-id=${place.number}`,
    '--gtid-mode=ON',
    '--enforce-gtid-consistency=ON',
    // A server that has not joined the group yet would accept writes of its own.
    '--super-read-only=ON',
    '--report-host=127.0.0.1',
    '--plugin-load-add=group_replication.so',
    ...Object.entries(settings).map(([name, value]) => `--loose-group-replication-${name}=${value}`),
  ]
}

const isOnlineSql = `SELECT 1 FROM performance_schema.replication_group_members
  WHERE member_id = @@server_uuid AND member_state = 'ONLINE'`

/** What a server has logged last about replication, the newest message first. */
async function replicationLog(place: Place): Promise<string> {
  const rows = await executeAsRoot(
    place,
    "SELECT data FROM performance_schema.error_log WHERE subsystem = 'Repl' ORDER BY logged DESC LIMIT 10",
  )
  return Array.isArray(rows) ? rows.map(row => ('data' in row ? String(row.data) : '')).join('\n') : ''
}

/** Waits until a server that has joined has received the writes that it has missed. */
const untilOnline = (place: Place): Promise<void> =>
  retry(
    async () => {
      const rows = await executeAsRoot(place, isOnlineSql)
      if (!Array.isArray(rows) || rows.length === 0)
        throw new Error(`server ${place.number} did not become online within ${ONLINE_TIMEOUT_MS / 1000} s`)
    },
    { timeoutMs: ONLINE_TIMEOUT_MS, pauseMs: () => 100 },
  )

/**
 * Creates a group and starts its servers. With one primary, it is the first server.
 * @throws Error that says what is missing, or with the end of the log of a server that does not start
 */
export async function startGroupReplication(options: GroupOptions): Promise<DatabaseCluster> {
  const { base, count, multiPrimary, print } = options
  const installation = await findInstallation(false)
  if (installation === undefined)
    throw new Error('Group Replication needs MySQL, which cannot be found: install it')
  const { program } = installation
  const title = `${installation.title} with Group Replication`
  const { first, places, password, createUser } = await createPlaces(options)

  print(`creating ${count} servers of ${title} in ${base}`)
  const setup = join(base, 'setup.sql')
  const createReplicationUser = [
    `CREATE USER replication@'%' IDENTIFIED BY '${password}'`,
    "GRANT REPLICATION SLAVE, BACKUP_ADMIN, GROUP_REPLICATION_STREAM, CONNECTION_ADMIN ON *.* TO replication@'%'",
  ]
  await writeFile(setup, [...createUser, ...createReplicationUser, ''].join(';\n'), { mode: 0o600 })
  await createDataFolder(installation, first.data, [`--init-file=${setup}`, '--skip-log-bin', ...userArgs])
  // Each server creates its own identity.
  await rm(join(first.data, 'auto.cnf'), { force: true })
  await copyData(places)

  const group = randomUUID()
  const joinGroup = `START GROUP_REPLICATION USER = 'replication', PASSWORD = '${password}'`
  const bootstrap = (value: 'ON' | 'OFF') => `SET GLOBAL group_replication_bootstrap_group = ${value}`
  // The first start, that of the first server, creates the group.
  let exists = false
  const servers = places.map(place => {
    const args = groupArgs(place, places, group, multiPrimary)
    const server = createRestartable(() => describeServer(title, program, args, place, 'SELECT 1'))
    const start = async () => {
      await server.start()
      const statements = exists ? [joinGroup] : [bootstrap('ON'), joinGroup, bootstrap('OFF')]
      exists = true
      // The group refuses a server that crashed until it has noticed that the server was gone.
      await retry(() => executeAsRoot(place, ...statements), {
        timeoutMs: ONLINE_TIMEOUT_MS,
        pauseMs: () => 1000,
        isTransient: error => hasCode(error, 'ER_GROUP_REPLICATION_CONFIGURATION'),
      }).catch(async (cause: unknown) => {
        throw new Error(`server ${place.number} cannot join: ${await replicationLog(place)}`, { cause })
      })
      await untilOnline(place)
    }
    return { ...server, url: place.url, start }
  })
  return startServers(title, servers, print)
}
