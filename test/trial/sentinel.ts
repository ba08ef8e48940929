// Runs Redis servers with Sentinel on this machine, for trials and tests: one master, its replicas, and a Sentinel for each.
import { randomBytes } from 'node:crypto'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathOf, redisProgram } from '../../src/cli/private-servers/programs.ts'
import { ask } from '../../src/cli/private-servers/redis.ts'
import { retry } from '../../src/core/retry.ts'
import { type ClusterOptions, type ClusterServer, createRestartable } from './restartable.ts'

const MASTER = 'users-api'
const READY_TIMEOUT_MS = 60_000
const PAUSE_MS = 50

/** Returns the settings of a Sentinel, without those of its machine. @param master the port of the master at the start */
export const sentinelSettings = (count: number, master: number, password: string): string[] => [
  `sentinel monitor ${MASTER} 127.0.0.1 ${master} ${Math.floor(count / 2) + 1}`,
  `sentinel auth-pass ${MASTER} ${password}`,
  `sentinel down-after-milliseconds ${MASTER} 1000`,
  `sentinel failover-timeout ${MASTER} 2000`,
]

async function untilReply(
  url: string,
  command: readonly [string, ...string[]],
  expected: RegExp,
): Promise<void> {
  const attempt = async () => {
    const reply = String(await ask(url, ...command))
    if (!expected.test(reply)) throw new Error(`Redis replied ${reply} to ${command.join(' ')}`)
  }
  await retry(attempt, { timeoutMs: READY_TIMEOUT_MS, pauseMs: () => PAUSE_MS })
}

/**
 * Creates a group, starts its processes and waits until a failover is possible. A master that does not answer for 1 s is
 * replaced.
 * @throws Error that says what is missing, or with the end of the log of a process that does not start
 */
export async function startSentinelGroup({ base, count, firstPort, print }: ClusterOptions) {
  const program = pathOf(redisProgram)
  await rm(base, { recursive: true, force: true })
  await mkdir(base, { recursive: true, mode: 0o700 })
  // The ports of 127.0.0.1 are open to all users of the machine.
  const password = randomBytes(16).toString('hex')

  /** Writes the configuration files, in which Redis and Sentinel later save their role. */
  const createProcesses = (
    title: string,
    firstPort: number,
    options: readonly string[],
    linesOf: (index: number) => readonly string[],
  ) =>
    Promise.all(
      Array.from({ length: count }, async (_, index): Promise<ClusterServer> => {
        const port = firstPort + index
        const file = join(base, `${port}.conf`)
        const common = ['bind 127.0.0.1', `port ${port}`, `dir ${base}`, `requirepass ${password}`]
        await writeFile(file, [...common, ...linesOf(index), ''].join('\n'), { mode: 0o600 })
        const url = `redis://:${password}@127.0.0.1:${port}`
        const server = {
          title: `${title} ${index + 1} of ${count}`,
          program,
          args: [file, ...options],
          url,
          ping: async () => void (await ask(url, 'PING')),
        }
        return { ...createRestartable(() => server), url }
      }),
    )

  const firstSentinel = firstPort + count
  const servers = await createProcesses('Redis', firstPort, [], index => [
    `masterauth ${password}`,
    'save ""',
    'appendonly no',
    'maxmemory 128mb',
    'maxmemory-policy allkeys-lru',
    'repl-diskless-sync-delay 0',
    ...(index === 0 ? [] : [`replicaof 127.0.0.1 ${firstPort}`]),
  ])
  const sentinels = await createProcesses('Sentinel', firstSentinel, ['--sentinel'], () =>
    sentinelSettings(count, firstPort, password),
  )
  const stop = async () => {
    await Promise.all([...sentinels, ...servers].map(one => one.stop()))
  }
  try {
    print(`starting ${count} Redis servers in ${base}`)
    await Promise.all(servers.map(server => server.start()))
    for (const { url } of servers.slice(1))
      await untilReply(url, ['INFO', 'replication'], /master_link_status:up/)
    print(`starting ${count} Sentinels`)
    await Promise.all(sentinels.map(sentinel => sentinel.start()))
    for (const { url } of sentinels) {
      const pairs = new RegExp(`num-slaves,${count - 1},num-other-sentinels,${count - 1}(?:,|$)`)
      await untilReply(url, ['SENTINEL', 'MASTER', MASTER], pairs)
    }
  } catch (error) {
    await stop()
    throw error
  }
  const hosts = sentinels.map((_, index) => `127.0.0.1:${firstSentinel + index}`)
  return {
    /** The value for REDIS_URL. */
    url: `redis+sentinel://:${password}@${hosts.join()}/${MASTER}?sentinel_password=${password}`,
    /** The first one is the master at the start. */
    servers,
    sentinels,
    /** Stops the processes that run. */
    stop,
  }
}
