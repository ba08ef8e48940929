// How every connection to MySQL is made and what it agrees on before its first statement.
import { promisify } from 'node:util'
import type { Knex } from 'knex'
import type { Connection } from 'mysql2'

const CONNECT_TIMEOUT_MS = 5000

/** @param url `mysql://user:password@host:port/database`, with `?socketPath=` for a Unix socket */
export function connection(url: string): Knex.MySql2ConnectionConfig {
  return {
    uri: url,
    charset: 'utf8mb4',
    connectTimeout: CONNECT_TIMEOUT_MS,
    // An object is never spread into SQL, whatever a caller passes.
    stringifyObjects: true,
    multipleStatements: false,
  }
}

/**
 * Sets what answers depend on, whatever the server's defaults are: strictness, one escaping rule, short lock waits, and
 * READ COMMITTED, which takes fewer gap locks and so deadlocks less.
 */
export async function prepareSession(raw: Connection): Promise<void> {
  const query = promisify<string, unknown>(raw.query.bind(raw))
  await query("SET SESSION sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = 5")
  await query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
}
