// Runs a Galera cluster of MariaDB servers on this machine. A server that comes back receives the writes that it has missed,
// but never a complete copy of the data, which would need further programs (mariadb-server and rsync).
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { createDataFolder, findInstallation, userArgs } from '../../src/cli/private-servers/mysql.ts'
import { findProgram } from '../../src/cli/private-servers/programs.ts'
import { runProgram } from '../../src/cli/private-servers/run-program.ts'
import { runServer } from '../../src/cli/private-servers/server.ts'
import { environmentWith, programFolders } from '../../src/config/environment.ts'
import { galeraProgram } from '../support/programs.ts'
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

// For a server that joins, MariaDB runs this program at both ends (`wsrep_sst_method=local`). It only hands the joiner's own
// position back to it, in a file: the writes since then follow on another way.
const transferScript = (folder: string) => `#!/bin/sh
set -eu
bypass=
while [ $# -gt 0 ]; do
  case $1 in
    --role) role=$2 ;;
    --address) address=$2 ;;
    --gtid) position=$2 ;;
    --bypass) bypass=yes ;;
  esac
  shift
done
file='${folder}'/transfer-\${address##*:}
if [ "$role" = joiner ]; then
  rm -f "$file"
  echo "ready $address"
  until [ -s "$file" ]; do sleep 0.1; done
  cat "$file"
else
  [ -n "$bypass" ] || { echo 'a complete copy is not supported' >&2; exit 22; }
  echo continue
  echo "$position" >"$file.new"
  mv "$file.new" "$file"
  echo "done $position"
fi
`

const saved = 'grastate.dat'

export function galeraArgs(place: Place, places: readonly Place[], library: string): string[] {
  const { number, clusterPort, transferPort } = place
  const provider = {
    base_host: '127.0.0.1',
    base_port: clusterPort,
    'gmcast.listen_addr': `tcp://127.0.0.1:${clusterPort}`,
    'ist.recv_addr': `127.0.0.1:${transferPort}`,
    'gcache.size': '128M',
    // A server that is gone is noticed after 2 s. The keepalive period must be shorter than the default for this.
    'evs.keepalive_period': 'PT0.5S',
    'evs.suspect_timeout': 'PT2S',
    'evs.inactive_timeout': 'PT8S',
    // A server that is behind must not pause and resume the others at nearly the same moment, see config/cluster/galera.cnf.
    'gcs.fc_limit': 256,
    'gcs.fc_factor': 0.5,
  }
  return [
    ...commonArgs(place),
    ...userArgs,
    '--innodb-log-file-size=32M',
    '--binlog-format=ROW',
    '--innodb-autoinc-lock-mode=2',
    '--wsrep-on=ON',
    `--wsrep-provider=${library}`,
    '--wsrep-cluster-name=users-api',
    `--wsrep-node-name=server${number}`,
    '--wsrep-node-address=127.0.0.1',
    `--wsrep-cluster-address=gcomm://${places.map(one => `127.0.0.1:${one.clusterPort}`).join()}`,
    '--wsrep-sst-method=local',
    `--wsrep-sst-receive-address=127.0.0.1:${transferPort}`,
    `--wsrep-provider-options=${Object.entries(provider)
      .map(([name, value]) => `${name}=${value}`)
      .join(';')}`,
  ]
}

/** Returns the arguments that tell a crashed server its position. A server that was stopped has saved it. */
async function positionArgs(program: string, args: readonly string[], { data }: Place): Promise<string[]> {
  if (!/^seqno: +-1$/m.test(await readFile(join(data, saved), 'utf8'))) return []
  const log = join(data, 'recovery.log')
  await rm(log, { force: true })
  await runProgram(program, [...args, '--wsrep-recover', `--log-error=${log}`])
  const position = /Recovered position: *(\S+)/.exec(await readFile(log, 'utf8'))?.[1]
  return position === undefined ? [] : [`--wsrep-start-position=${position}`]
}

/**
 * Creates a cluster and starts its servers.
 * @throws Error that says what is missing, or with the end of the log of a server that does not start
 */
export async function startGalera(options: ClusterOptions): Promise<DatabaseCluster> {
  const { base, count, print } = options
  const installation = await findInstallation(true)
  const library = findProgram(galeraProgram.names)
  if (installation === undefined || library === undefined)
    throw new Error('a Galera cluster needs MariaDB and Galera: install mariadb-server-core and galera-4')
  const { program } = installation
  const title = `${installation.title} with Galera`
  const { first, places, createUser } = await createPlaces(options)
  const bin = join(base, 'bin')
  await mkdir(bin)
  await writeFile(join(bin, 'wsrep_sst_local'), transferScript(base))
  await chmod(join(bin, 'wsrep_sst_local'), 0o700)
  const env = environmentWith({ PATH: `${bin}:${programFolders()}:${dirname(program)}` })

  const argsOf = (place: Place) => galeraArgs(place, places, library)
  const describe = (place: Place, more: readonly string[]) =>
    describeServer(title, program, [...argsOf(place), ...more], place, 'START TRANSACTION')

  print(`creating ${count} servers of ${title} in ${base}`)
  await createDataFolder(installation, first.data, ['--innodb-log-file-size=32M', ...userArgs])
  // The copies of a server that has run once belong to its cluster.
  const once = await runServer(describe(first, ['--wsrep-new-cluster']), { env })
  await executeAsRoot(first, ...createUser)
  await once.stop()
  await rm(join(first.data, 'galera.cache'))
  await copyData(places)

  // The first start, that of the first server, creates the cluster.
  let exists = false
  const servers = places.map(place => {
    const describeNext = async () => {
      const more = exists ? await positionArgs(program, argsOf(place), place) : ['--wsrep-new-cluster']
      exists = true
      return describe(place, more)
    }
    return { ...createRestartable(describeNext, { env }), url: place.url }
  })
  return startServers(title, servers, print)
}
