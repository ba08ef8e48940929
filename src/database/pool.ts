// Opens the connection pool and configures the session of each connection.
import type { Socket } from 'node:net'
import { promisify } from 'node:util'
import knex, { type Knex } from 'knex'
import Client, { type Statement } from 'knex/lib/dialects/mysql2/index.js'
import type { Connection } from 'mysql2'
import type { Log } from '../core/log.ts'
import { isDemoted } from './driver-errors.ts'

const CONNECT_TIMEOUT_MS = 5000
/** The shortest time that both servers accept. Longer waits are repeated, see `lock-queue.ts`. */
const LOCK_WAIT_S = 1

/**
 * Returns SQL for the statement time limit of the server, which would otherwise continue a statement after
 * the client has given up. MariaDB and MySQL each execute one of the two comments. 0 is no limit.
 */
const statementTimeout = (ms: number) =>
  `/*M! , max_statement_time = ${ms / 1000} */ /*!50708 , max_execution_time = ${ms} */`

/**
 * Returns SQL that makes the server end a silent connection, and so release the locks of a node that vanished during a
 * transaction. Connections that are only idle are closed earlier, by the client.
 */
const waitTimeout = (ms: number) => (ms === 0 ? '' : `, wait_timeout = ${Math.ceil((2 * ms) / 1000)}`)

/**
 * Sets the session variables that results depend on, independent of the server's defaults: strict mode, one
 * escaping rule, short lock waits, and READ COMMITTED, which has fewer gap locks and deadlocks.
 */
async function prepareSession(raw: Connection, silenceTimeoutMs: number): Promise<void> {
  const query = promisify<string, unknown>(raw.query.bind(raw))
  await query(
    `SET SESSION sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = ${LOCK_WAIT_S}
      ${waitTimeout(silenceTimeoutMs)} ${statementTimeout(silenceTimeoutMs)}`,
  )
  await query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
}

type PoolConnection = Connection & { stream: Socket }

/**
 * A statement after whose failure the state of the session is unknown: a transaction can be open, or the next one can
 * have the wrong isolation level.
 */
const transactionControl = /^(SET TRANSACTION|BEGIN|COMMIT|ROLLBACK)/

/**
 * The client of Knex, except that it closes connections that must not be used again. The server then rolls back their
 * transaction, and the pool opens new ones.
 */
class ClosingClient extends Client {
  override _query(connection: PoolConnection, statement: Statement): Promise<Statement> {
    const { sql, bindings, options } = statement
    return new Promise((resolve, reject) => {
      connection.query({ ...options, sql, values: bindings }, (error, rows, fields) => {
        if (error === null) {
          statement.response = [rows, fields]
          resolve(statement)
          return
        }
        // In this callback the driver has not sent the next statement in its queue.
        if (transactionControl.test(sql) || isDemoted(error)) connection.stream.destroy()
        reject(error)
      })
    })
  }
}

export interface PoolSettings {
  readonly max: number
  /** Milliseconds to wait for a free connection. */
  readonly acquireTimeoutMs: number
  /** Milliseconds without data from the server, after which a connection is closed; 0 is no limit. */
  readonly silenceTimeoutMs: number
}

/**
 * Creates a pool that opens connections on demand.
 * @param url `mysql://user:password@host:port/database`, with `?socketPath=` for a Unix socket
 */
export function openPool(url: string, settings: PoolSettings, log: Log): Knex {
  return knex.knex({
    client: ClosingClient,
    connection: {
      uri: url,
      charset: 'utf8mb4',
      connectTimeout: CONNECT_TIMEOUT_MS,
      // Objects in values are converted to strings, never expanded to SQL.
      stringifyObjects: true,
      multipleStatements: false,
    },
    // Knex prepends the statement to error messages. This omits its values, which are personal data.
    compileSqlOnError: false,
    acquireConnectionTimeout: settings.acquireTimeoutMs,
    pool: {
      min: 0,
      max: settings.max,
      afterCreate: (raw: PoolConnection, done: (error?: unknown) => void) => {
        // The timeout also closes idle connections. The pool opens new ones on demand.
        raw.stream.setTimeout(settings.silenceTimeoutMs, () => raw.stream.destroy())
        prepareSession(raw, settings.silenceTimeoutMs).then(
          () => done(),
          (error: unknown) => {
            raw.stream.destroy()
            done(error)
          },
        )
      },
    },
    // By default, Knex writes unformatted text to standard error. Failures are also returned as errors.
    log: {
      warn: text => log.debug(text),
      error: text => log.debug(text),
      deprecate: text => log.debug(text),
    },
  })
}
