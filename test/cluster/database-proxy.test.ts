// A service behind HAProxy before its databases: config/cluster/haproxy-galera.cfg if the tests run on MariaDB, otherwise
// config/cluster/haproxy-group-replication.cfg.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { findInstallation } from '../../src/cli/private-servers/mysql.ts'
import { findProgram } from '../../src/cli/private-servers/programs.ts'
import { runServer } from '../../src/cli/private-servers/server.ts'
import { environmentWith } from '../../src/config/environment.ts'
import { withDatabase } from '../../src/config/host-urls.ts'
import { createLog } from '../../src/core/log.ts'
import { migrate } from '../../src/database/migrator.ts'
import { configFile } from '../support/config-tools.ts'
import { executeOn, waitForWrites } from '../support/execute.ts'
import { readStates } from '../support/haproxy.ts'
import { claimPorts } from '../support/ports.ts'
import { haproxyProgram } from '../support/programs.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { startGalera } from '../trial/galera.ts'
import { startGroupReplication } from '../trial/group-replication.ts'

const isMariadb = (await findInstallation())?.isMariadb === true
const file = configFile(`cluster/haproxy-${isMariadb ? 'galera' : 'group-replication'}.cfg`)
const base = await mkdtemp(join(tmpdir(), 'users-api-proxy-'))
const claim = await claimPorts(2)
const options = { base: join(base, 'cluster'), count: 3, firstPort: claim.first, print: () => {} }
const cluster = await (isMariadb
  ? startGalera(options)
  : startGroupReplication({ ...options, multiPrimary: false }))
const urls = cluster.servers.map(({ url }) => url)
const [first = '', second = '', third = ''] = urls

// The example says which user its check needs.
const createUser = [...(await readFile(file, 'utf8')).matchAll(/^# {5}((?:CREATE|GRANT) .*)$/gm)].map(
  ([, statement = '']) => statement.replaceAll('10.0.0.9', '127.0.0.1'),
)
await executeOn(first, ...createUser)

const proxyPort = claim.first + 10
const proxyUrl = new URL(withDatabase(first, 'users'))
proxyUrl.port = String(proxyPort)
const socket = join(base, 'stats.sock')
const ping = async () => void (await executeOn(withDatabase(proxyUrl.href, ''), 'SELECT 1'))
const haproxy = await runServer(
  {
    title: haproxyProgram.title,
    program: findProgram(haproxyProgram.names) ?? '',
    args: ['-db', '-f', file],
    url: proxyUrl.href,
    ping,
  },
  {
    env: environmentWith({
      LISTEN: `127.0.0.1:${proxyPort}`,
      SERVER1: new URL(first).host,
      SERVER2: new URL(second).host,
      SERVER3: new URL(third).host,
      STATS_SOCKET: socket,
    }),
  },
)
async function serverStates(): Promise<(string | undefined)[]> {
  const states = await readStates(socket)
  return [1, 2, 3].map(number => states.get(`databases/server${number}`))
}

/** Waits until HAProxy reports these states of the three servers. */
async function untilStates(...expected: readonly string[]): Promise<void> {
  await until(async () => (await serverStates()).join() === expected.join())
}

// HAProxy uses all servers until their first checks have failed.
await untilStates('UP', ...(isMariadb ? ['UP', 'UP'] : ['DOWN', 'DOWN']))
await migrate(proxyUrl.href, createLog('silent', 'test'))
const service = await startService({ database: proxyUrl.href })

test.after.always(async () => {
  await service.stop()
  await haproxy.stop()
  await Promise.all(cluster.servers.map(server => server.stop('SIGKILL')))
  await rm(base, { recursive: true, force: true })
  await claim.release()
})

/** Returns the URL of the server that HAProxy uses: the first one whose check succeeds. */
const findUsed = (): Promise<string> => until(async () => urls[(await serverStates()).indexOf('UP')])

let names = 0
const stored: string[] = []
/** Creates a user. @returns the status */
async function create(): Promise<number> {
  const name = `proxied ${++names}`
  const { status } = await fetch(`${service.url}/v1/users`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ first_name: name, last_name: 'Lovelace' }),
  })
  if (status === 200) stored.push(name)
  return status
}

/** Creates users until one is stored. @returns the number of milliseconds */
async function untilStored(): Promise<number> {
  const startedMs = performance.now()
  const isStored = async () => {
    const status = await create()
    if (status !== 200 && status !== 503) throw new Error(`status ${status}`)
    return status === 200
  }
  await until(isStored)
  return performance.now() - startedMs
}

test.serial('HAProxy before databases: uses a server that can write, also after it is killed', async t => {
  t.is(createUser.length, isMariadb ? 1 : 2)
  t.is(await create(), 200)
  await cluster.servers[0]?.stop('SIGKILL')
  t.log(`writes ${(await untilStored()).toFixed()} ms after the server was killed`)
  if (isMariadb) await untilStates('DOWN', 'UP', 'UP')
  await cluster.servers[0]?.start()
  // A server that comes back to a group does not become the primary.
  if (isMariadb) await untilStates('UP', 'UP', 'UP')
  else t.is((await serverStates())[0], 'DOWN')
  await untilStored()
})

test.serial('HAProxy before databases: a server outside its cluster gets no connections', async t => {
  const running = await findUsed()
  const [leave, join] = isMariadb
    ? [
        "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'",
        "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'",
      ]
    : ['STOP GROUP_REPLICATION', 'START GROUP_REPLICATION']
  const untilState = (state: string) =>
    until(async () => (await serverStates())[urls.indexOf(running)] === state)
  await untilState('UP')
  await executeOn(running, leave)
  await untilState('DOWN')
  t.log(`writes ${(await untilStored()).toFixed()} ms after HAProxy has noticed`)
  if (isMariadb) {
    await executeOn(running, join)
    await untilState('UP')
  }
  await untilStored()
  const rows = await executeOn(
    withDatabase(third === running ? second : third, 'users'),
    waitForWrites(isMariadb),
    "SELECT first_name AS name FROM users WHERE last_name = 'Lovelace' ORDER BY id",
  )
  const found = new Set(Array.isArray(rows) ? rows.map(({ name }) => name) : [])
  t.deepEqual(
    stored.filter(name => !found.has(name)),
    [],
  )
})
