// Redis with Sentinel: real Sentinels, a master and its replicas, before a cache and before a service.
import test, { type ExecutionContext } from 'ava'
import { Redis } from 'ioredis'
import { findProgram, redisProgram } from '../../src/cli/private-servers/programs.ts'
import { redisUrl } from '../../src/config/redis-url.ts'
import { fill, keysOf, openCache, readHits } from '../support/cache.ts'
import { folder } from '../support/folder.ts'
import { createClient } from '../support/http.ts'
import { claimPorts } from '../support/ports.ts'
import { ask as askService, createDatabase, startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import type { ClusterServer } from '../trial/restartable.ts'
import { startSentinelGroup } from '../trial/sentinel.ts'

/** How long the cache waits for a reply: it does so several times in each failover. */
const TIMEOUT_MS = 1000

const connected = 'cache connected'
const unavailable = 'cache unavailable, reading from the database'

async function startGroup(t: ExecutionContext) {
  const claim = await claimPorts()
  const group = await startSentinelGroup({ base: folder(t), count: 3, firstPort: claim.first, print: t.log })
  t.teardown(async () => {
    await group.stop()
    await claim.release()
  })
  return group
}

/** Sends a signal to a process. */
function signal(one: ClusterServer | undefined, name: NodeJS.Signals): void {
  const pid = one?.pid()
  if (pid === undefined) throw new Error('the process does not run')
  process.kill(pid, name)
}

/** Sends one command to a Redis server or a Sentinel. @returns the reply, or the message of its error */
async function ask({ url }: ClusterServer, command: string, ...args: string[]): Promise<string> {
  const client = new Redis(url, { enableReadyCheck: false })
  try {
    return String(await client.call(command, ...args).catch((error: Error) => error.message))
  } finally {
    client.disconnect()
  }
}

const isMaster = async (server: ClusterServer) => (await ask(server, 'ROLE')).startsWith('master')

/** Returns the one of `servers` that is the master. */
async function findMaster(servers: readonly ClusterServer[]): Promise<ClusterServer> {
  for (const server of servers) if (await isMaster(server)) return server
  throw new Error('there is no master')
}

/** Plans a failover. Sentinel refuses it until it has finished the one before. */
async function requestFailover(sentinel: ClusterServer): Promise<void> {
  await until(async () => (await ask(sentinel, 'SENTINEL', 'FAILOVER', 'users-api')) === 'OK', {
    everyMs: 200,
  })
}

if (findProgram(redisProgram.names) === undefined)
  test('Sentinel: not tested, because Redis is not installed', t => t.pass())
else {
  test.serial(
    'Sentinel: after each failover the cache works again, with one log line for each change',
    async t => {
      const { url, servers, sentinels } = await startGroup(t)
      const [, password = ''] = /:(\w+)@/.exec(url) ?? []
      // The first of the Sentinels hangs all the time.
      signal(sentinels[0], 'SIGSTOP')
      t.teardown(() => signal(sentinels[0], 'SIGCONT'))
      const { cache, messages, lines } = await openCache(t, redisUrl.parse(url), TIMEOUT_MS)
      const keys = keysOf(50)
      await fill(cache, keys)
      const expected = [connected]
      t.deepEqual(messages(), expected)

      /** Expects that the cache is away and comes back, and that no read waits longer than the time-out. */
      const expectFailover = async () => {
        expected.push(unavailable, connected)
        await until(async () => {
          t.false((await readHits(cache, keys, TIMEOUT_MS)).isLate)
          return messages().length >= expected.length
        })
        await fill(cache, keys)
        t.deepEqual(messages(), expected)
        t.is(cache.report().state, 'connected')
      }
      await servers[0]?.stop('SIGKILL')
      await expectFailover()

      // The old master comes back as a replica. Then the new one hangs for as long as the failover takes.
      const [first, ...replicas] = servers
      const second = await findMaster(replicas)
      await first?.start()
      signal(second, 'SIGSTOP')
      await expectFailover()
      signal(second, 'SIGCONT')

      // An operator plans a failover, while all servers run.
      await until(async () => !(await isMaster(second)), { everyMs: 100 })
      const third = await findMaster(servers)
      await requestFailover(sentinels[1] ?? third)
      await expectFailover()
      t.false(await isMaster(third))
      t.false(JSON.stringify(lines).includes(password))
    },
  )

  test.serial('Sentinel: no include is stale while the master is replaced', async t => {
    const { url, servers } = await startGroup(t)
    const database = await createDatabase()
    const start = () =>
      startService({
        database,
        env: { REDIS_URL: url },
        // Three replies that are late would end the use of the cache.
        config: { cache: { timeoutMs: 10_000 }, log: { level: 'info', requests: false } },
      })
    const [one, other] = [await start(), await start()]
    t.teardown(() => Promise.all([one.stop(), other.stop()]))
    const [writer, reader] = [createClient(one.url), createClient(other.url)]
    const user = await writer.create('/v1/users', { first_name: 'Ada', last_name: 'Lovelace' })
    const group = await writer.create('/v1/groups', { name: 'first' })
    t.is((await writer.post(`/v1/users/${user}/groups`, { id: group })).status, 200)

    let renames = 0
    /** Renames the group through one node, and reads it twice through the other: the second read can be cached. */
    const expectFresh = async () => {
      const name = `name ${++renames}`
      t.is((await writer.patch(`/v1/groups/${group}`, { name })).status, 200)
      for (let read = 0; read < 2; read++) {
        const { body } = await reader.get(`/v1/users/${user}?include=groups`)
        t.is(body.groups?.[0]?.name, name)
      }
    }
    const hits = async () => {
      const answer = await askService(`${other.controlUrl}/metrics`)
      return Number(/^users_api_cache_lookups_total\{result="hits"\} (\d+)/m.exec(answer?.text ?? '')?.[1])
    }
    const changes = () => other.log().match(/"msg":"cache (?:connected|unavailable)/g)?.length
    while (changes() !== 1) await expectFresh()
    await servers[0]?.stop('SIGKILL')
    while (changes() !== 3) await expectFresh()
    const hitsBefore = await hits()
    while ((await hits()) < hitsBefore + 10) await expectFresh()
    t.is(changes(), 3)
    t.log(`${renames} renames`)
  })
}
