// Starts a private MySQL and a private Redis for the URLs that are missing in the settings.
import { join } from 'node:path'
import type { Config } from '../../config/config.ts'
import { root } from '../../config/root.ts'
import { prepareMysql } from './mysql.ts'
import { installMissing, mysqlProgram, redisProgram } from './programs.ts'
import { prepareRedis } from './redis.ts'
import type { PrivateServer, ServerOptions } from './server.ts'

export type ServerKind = 'redis' | 'mysql'

/** The folder with the data of the servers that `npm start` runs. */
export const base = join(root, 'var')
/** The name of the private database. */
export const privateDatabase = 'users_api'

/**
 * Prepares and starts the servers, and installs them first if necessary.
 * @param run starts one server
 * @returns their URLs as environment variables
 */
export async function startMissingServers(
  { database, cache }: Config,
  options: ServerOptions,
  run: (kind: ServerKind, server: PrivateServer) => Promise<void>,
): Promise<{ REDIS_URL?: string; DATABASE_URL?: string }> {
  const start = async (kind: ServerKind, server: PrivateServer): Promise<string> => {
    options.print(`starting ${server.title}`)
    await run(kind, server)
    return server.url
  }
  const missing = [database.url === null ? mysqlProgram : [], cache.url === null ? redisProgram : []].flat()
  await installMissing(missing, options.print)
  return {
    ...(cache.url === null && { REDIS_URL: await start('redis', await prepareRedis(options)) }),
    ...(database.url === null && {
      DATABASE_URL: await start('mysql', await prepareMysql(privateDatabase, options)),
    }),
  }
}
