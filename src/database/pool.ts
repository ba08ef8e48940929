// How every connection to MySQL is made and what it agrees on before its first statement.
import type { Socket } from 'node:net'
import { promisify } from 'node:util'
import knex, { type Knex } from 'knex'
import type { Connection } from 'mysql2'
import type { Log } from '../core/log.ts'

const CONNECT_TIMEOUT_MS = 5000
const MAX_LOCK_WAIT_S = 5

/** The server is to give up waiting, and to say so, before its silence ends the connection. */
function lockWaitSeconds(silenceTimeoutMs: number): number {
  if (silenceTimeoutMs === 0) return MAX_LOCK_WAIT_S
  return Math.min(MAX_LOCK_WAIT_S, Math.max(1, Math.floor(silenceTimeoutMs / 2000)))
}

/**
 * For the server, which would go on with a statement that nobody waits for any more: each has a setting of its own, and
 * takes the other's for a comment. 0 is for ever.
 */
const statementTimeout = (ms: number) =>
  `/*M! , max_statement_time = ${ms / 1000} */ /*!50708 , max_execution_time = ${ms} */`

/**
 * Sets what answers depend on, whatever the server's defaults are: strictness, one escaping rule, short lock waits, and
 * READ COMMITTED, which takes fewer gap locks and so deadlocks less.
 */
async function prepareSession(raw: Connection, silenceTimeoutMs: number): Promise<void> {
  const query = promisify<string, unknown>(raw.query.bind(raw))
  await query(
    `SET SESSION sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = ${lockWaitSeconds(silenceTimeoutMs)}
      ${statementTimeout(silenceTimeoutMs)}`,
  )
  await query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
}

export interface PoolSettings {
  readonly max: number
  /** How long to wait for a free connection. */
  readonly acquireTimeoutMs: number
  /** How long a server may be silent, be it that a statement takes so long or that packets are lost; 0 is for ever. */
  readonly silenceTimeoutMs: number
}

/**
 * A pool of connections that are opened as they are needed.
 * @param url `mysql://user:password@host:port/database`, with `?socketPath=` for a Unix socket
 */
export function openPool(url: string, settings: PoolSettings, log: Log): Knex {
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
    // Knex puts the statement before what the server says of it: without its values, which are what people are called.
    compileSqlOnError: false,
    acquireConnectionTimeout: settings.acquireTimeoutMs,
    pool: {
      min: 0,
      max: settings.max,
      afterCreate: (raw: Connection & { stream: Socket }, done: (error?: unknown) => void) => {
        // An idle connection ends with it as well; the pool opens another one when it needs it.
        raw.stream.setTimeout(settings.silenceTimeoutMs, () => raw.stream.destroy())
        prepareSession(raw, settings.silenceTimeoutMs).then(() => done(), done)
      },
    },
    // Knex would write to standard error, in no format; failures come back as errors in any case.
    log: {
      warn: text => log.debug(text),
      error: text => log.debug(text),
      deprecate: text => log.debug(text),
    },
  })
}
