// A private MySQL and Redis for the duration of a benchmark. MySQL flushes every commit to disk, as in production.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { createConnection } from 'mysql2/promise'
import { prepareMysql } from '../../src/cli/private-servers/mysql.ts'
import { prepareRedis } from '../../src/cli/private-servers/redis.ts'
import { runServer } from '../../src/cli/private-servers/server.ts'
import { createLog } from '../../src/core/log.ts'
import { migrate } from '../../src/database/migrator.ts'
import { populate } from './population.ts'

const log = createLog('warn', 'bench')

export interface Stores {
  /** Name and version of the database server, such as "MariaDB 10.11.6". */
  readonly title: string
  readonly redisUrl: string
  readonly databasePid: () => number | undefined
  readonly redisPid: () => number | undefined
  /** Temporary folder, deleted at the end. */
  readonly folder: string
  /** Creates a database with `users` users. @returns its URL */
  createPopulated(users: number): Promise<string>
  /** Drops the created databases and empties Redis. */
  clear(): Promise<void>
}

/**
 * Runs `work` with both servers, then stops them and deletes their files.
 * @param users the largest number of users in a database. As on a dedicated database machine, they fit into memory.
 */
export async function withStores<T>(users: number, work: (stores: Stores) => Promise<T>): Promise<T> {
  const memory = `--innodb-buffer-pool-size=${Math.ceil(users / 1_000_000)}G`
  const folder = await mkdtemp(join(tmpdir(), 'users-api-bench-'))
  const stops: (() => Promise<void>)[] = []
  try {
    const mysql = await prepareMysql('', { base: folder, durable: true, print: () => {} })
    const runningMysql = await runServer({ ...mysql, args: [...mysql.args, memory] })
    stops.push(runningMysql.stop)
    const redis = await prepareRedis({ base: folder })
    const runningRedis = await runServer(redis)
    stops.push(runningRedis.stop)
    const pids = { databasePid: runningMysql.pid, redisPid: runningRedis.pid }
    return await work({ ...createStores(mysql.title, mysql.url, redis.url, folder), ...pids })
  } finally {
    await Promise.all(stops.map(stop => stop()))
    await rm(folder, { recursive: true, force: true })
  }
}

function createStores(
  title: string,
  serverUrl: string,
  redisUrl: string,
  folder: string,
): Omit<Stores, 'databasePid' | 'redisPid'> {
  const databases: string[] = []
  const execute = async (sql: string) => {
    const connection = await createConnection(serverUrl)
    await connection.query(sql).finally(() => connection.end())
  }
  return {
    title,
    redisUrl,
    folder,

    async createPopulated(users) {
      const name = `bench_${databases.length + 1}`
      await execute(`CREATE DATABASE ${name}`)
      databases.push(name)
      const url = new URL(serverUrl)
      url.pathname = `/${name}`
      await migrate(url.href, log)
      await populate(url.href, users)
      return url.href
    },

    async clear() {
      for (const name of databases.splice(0)) await execute(`DROP DATABASE ${name}`)
      const redis = new Redis(redisUrl.replace(/^redis\+unix:\/\//, ''))
      await redis.flushall().finally(() => redis.disconnect())
    },
  }
}
