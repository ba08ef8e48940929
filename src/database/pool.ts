// Opens a connection pool. A connection goes to the first host of its URL that accepts writes, and is closed when its
// server accepts no more.
import knex, { type Knex } from 'knex'
import Client, { type PoolConnection, type Statement } from 'knex/lib/dialects/mysql2/index.js'
import { hostUrls } from '../config/host-urls.ts'
import type { Log } from '../core/log.ts'
import { retry } from '../core/retry.ts'
import { isDemoted, isDenied, isFull } from './driver-errors.ts'
import { createEpochs, type Epochs } from './epochs.ts'
import { connectToFirst } from './first-host.ts'
import { prepareSession } from './session.ts'

const MAX_CONNECT_MS = 5000
/**
 * The time limit of an attempt to connect, as a share of the wait for a connection: the wait then fails with the reason, and not
 * because the pool seems to be full.
 */
const CONNECT_SHARE = 0.6
const MAX_IDLE_MS = 30_000
/** The longest time without use, as a share of the silence after which a connection is reset. The server would log a reset. */
const IDLE_SHARE = 0.8
/** The pause before a server is asked again that accepts no further connection. */
const FULL_PAUSE_MS = 200

/**
 * A statement after whose failure the state of the session is unknown: a transaction can be open, or the next one can
 * have the wrong isolation level.
 */
const transactionControl = /^(SET TRANSACTION|START TRANSACTION|BEGIN|COMMIT|ROLLBACK)/

const rollback = /^ROLLBACK\b/

interface PoolSettings {
  readonly max: number
  /** Milliseconds without data from the server, after which a connection is closed; 0 is no limit. */
  readonly silenceTimeoutMs: number
  /** Milliseconds to wait for a free connection. */
  readonly acquireTimeoutMs: number
  /** By default, the pool has its own. */
  readonly epochs?: Epochs
}

export type { PoolConnection }

/** Returns the client of a pool, which Knex does not type. @throws TypeError for a pool of another function than `openPool` */
export function clientOf(knex: Knex): Client {
  const client: unknown = knex.client
  if (client instanceof Client) return client
  throw new TypeError('the pool has not been opened by openPool')
}

/** Calls `use` with a connection of the pool. */
export async function withConnection<T>(
  knex: Knex,
  use: (connection: PoolConnection) => Promise<T>,
): Promise<T> {
  const client = clientOf(knex)
  const connection = await client.acquireConnection()
  try {
    return await use(connection)
  } finally {
    await client.releaseConnection(connection)
  }
}

/**
 * Executes SQL text without Knex's query builder, which would compile the same statement each time.
 * @returns the result for the functions of results.ts
 */
export async function send(
  knex: Knex,
  connection: PoolConnection,
  sql: string,
  bindings: readonly unknown[] = [],
): Promise<unknown> {
  const { response } = await clientOf(knex)._query(connection, { sql, bindings: [...bindings] })
  return response?.[0]
}

/**
 * Closes a connection whose server is silent. A reset drops what the kernel would send again when packets get through: a COMMIT
 * must not arrive after its transaction was looked up on another server.
 */
function abandon({ stream }: PoolConnection): void {
  try {
    stream.resetAndDestroy()
  } catch {
    // Node.js cannot reset a Unix socket, nor a connection with TLS.
    stream.destroy()
  }
  // Otherwise, the driver reports that the server has closed the connection.
  stream.emit(
    'error',
    Object.assign(new Error(`the database sent nothing for ${stream.timeout} ms`), { code: 'ETIMEDOUT' }),
  )
}

/**
 * Abandons a connection unless something is read or written before the immediate runs. After a stall, a server that seems
 * silent has answered. A connection that was idle can be in use again.
 */
function abandonIfSilent(raw: PoolConnection): void {
  const { stream } = raw
  const { bytesRead, bytesWritten } = stream
  setImmediate(() => {
    const isSilent = stream.bytesRead === bytesRead && stream.bytesWritten === bytesWritten
    if (!stream.destroyed && isSilent) abandon(raw)
  })
}

/**
 * Creates a pool that opens connections on demand.
 * @param url `mysql://user:password@host:port,host:port/database`, with `?socketPath=` for a Unix socket
 */
export function openPool(url: string, settings: PoolSettings, log: Log): Knex {
  const { max, acquireTimeoutMs, silenceTimeoutMs, epochs = createEpochs() } = settings
  const connectTimeout = Math.min(MAX_CONNECT_MS, CONNECT_SHARE * acquireTimeoutMs)
  const idleMs = silenceTimeoutMs === 0 ? MAX_IDLE_MS : Math.ceil(IDLE_SHARE * silenceTimeoutMs)
  const connection = {
    charset: 'utf8mb4',
    connectTimeout,
    // Objects in values are converted to strings. By default, they are expanded to assignments, `column` = value.
    stringifyObjects: true,
    multipleStatements: false,
    // The driver reserves 512 KiB of each connection for 16,000 of them. The service prepares none.
    maxPreparedStatements: 1,
  }

  /** The client of Knex, with several hosts. It closes connections that must not be used again. */
  class ClosingClient extends Client {
    override async acquireRawConnection(): Promise<PoolConnection> {
      const connect = async (uri: string) => {
        const { number } = epochs
        // Knex reads this property before it returns.
        this.connectionSettings = { ...connection, uri }
        const raw = await super.acquireRawConnection()
        epochs.connections.set(raw, { epoch: number, server: uri })
        raw.stream.once('close', () => epochs.connections.delete(raw))
        raw.stream.setTimeout(silenceTimeoutMs).on('timeout', () => abandonIfSilent(raw))
        await prepareSession(raw, silenceTimeoutMs).catch((error: unknown) => {
          raw.stream.destroy()
          throw error
        })
        return raw
      }
      // If the server accepts no further connection, the request takes one of the pool that becomes free meanwhile.
      const first = await retry(() => connectToFirst(hostUrls(url), connect, late => late.stream.destroy()), {
        timeoutMs: connectTimeout,
        pauseMs: () => FULL_PAUSE_MS,
        isTransient: error => isFull(error) && this.pool.numUsed() > 0,
      })
      epochs.server = epochs.connections.get(first)?.server
      return first
    }

    /** Knex would always call the pool full: a new connection can also be slow to open. */
    override acquireConnection(): Promise<PoolConnection> {
      return super.acquireConnection().catch((error: unknown) => {
        if (error instanceof Error && error.name === 'KnexTimeoutError')
          error.message = `no connection to the database was ready after ${acquireTimeoutMs} ms`
        throw error
      })
    }

    /** Knex would remove its listener for errors. One that comes while the connection ends would end the process. */
    override destroyRawConnection(raw: PoolConnection): Promise<void> {
      return new Promise(resolve => raw.end(() => resolve()))
    }

    override async validateConnection(raw: PoolConnection): Promise<boolean> {
      return epochs.connections.get(raw)?.epoch === epochs.number && super.validateConnection(raw)
    }

    /** If the connection ends, the server rolls back its transaction. */
    override _query(raw: PoolConnection, statement: Statement): Promise<Statement> {
      const { sql, bindings } = statement
      // An error here would replace the one that ended the connection, in a transaction of Knex.
      if (raw.stream.destroyed && rollback.test(sql)) return Promise.resolve(statement)
      return new Promise((resolve, reject) => {
        raw.query(sql, bindings, (error, rows, fields) => {
          if (error === null) {
            statement.response = [rows, fields]
            resolve(statement)
            return
          }
          if (isDemoted(error)) epochs.number++
          // In this callback the driver has not sent the next statement in its queue.
          if (transactionControl.test(sql) || isDemoted(error) || isDenied(error)) raw.stream.destroy()
          reject(error)
        })
      })
    }
  }

  return knex.knex({
    client: ClosingClient,
    connection,
    // Otherwise, Knex asks the server for it.
    version: 'latest',
    // Knex prepends the statement to error messages. This omits its values, which are personal data.
    compileSqlOnError: false,
    acquireConnectionTimeout: acquireTimeoutMs,
    // It closes idle connections, and opens new ones on demand.
    pool: { min: 0, max, idleTimeoutMillis: Math.min(MAX_IDLE_MS, idleMs) },
    // By default, Knex writes unformatted text to standard error. Failures are also returned as errors.
    log: {
      warn: text => log.debug(text),
      error: text => log.debug(text),
      deprecate: text => log.debug(text),
    },
  })
}
