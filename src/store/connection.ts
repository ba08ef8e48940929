// How every connection to MySQL is made and what it agrees on before its first statement.
import { promisify } from 'node:util'
import knex, { type Knex } from 'knex'
import type { Connection } from 'mysql2'
import type { Log } from '../log.ts'

const CONNECT_TIMEOUT_MS = 5000

/**
 * Sets what answers depend on, whatever the server's defaults are: strictness, one escaping rule, short lock waits, and
 * READ COMMITTED, which takes fewer gap locks and so deadlocks less.
 */
async function prepareSession(raw: Connection): Promise<void> {
  const query = promisify<string, unknown>(raw.query.bind(raw))
  await query("SET SESSION sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = 5")
  await query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
}

/**
 * A pool of connections that are opened as they are needed.
 * @param url `mysql://user:password@host:port/database`, with `?socketPath=` for a Unix socket
 */
export function openPool(url: string, settings: { max: number; acquireTimeoutMs: number }, log: Log): Knex {
  return knex.knex({
    client: 'mysql2',
    connection: {
      uri: url,
      charset: 'utf8mb4',
      connectTimeout: CONNECT_TIMEOUT_MS,
      // An object is never spread into SQL, whatever a caller passes.
      stringifyObjects: true,
      multipleStatements: false,
    },
    acquireConnectionTimeout: settings.acquireTimeoutMs,
    pool: {
      min: 0,
      max: settings.max,
      afterCreate: (raw: Connection, done: (error?: unknown) => void) =>
        prepareSession(raw).then(() => done(), done),
    },
    // Knex would write to standard error, in no format; failures come back as errors in any case.
    log: {
      warn: text => log.debug(text),
      error: text => log.debug(text),
      deprecate: text => log.debug(text),
    },
  })
}
