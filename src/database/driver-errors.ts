// What the driver's errors mean: come back later, try again at once, or a conflict the client has to solve.
import { ApiError, unavailable } from '../core/api-error.ts'
import { type CodedError, hasCode, reasonOf } from '../core/error-reason.ts'
import { retry } from '../core/retry.ts'

// The connection is gone or cannot be made, or the server takes no writes or no more clients.
const unreachable = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOENT',
  'EACCES',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'PROTOCOL_CONNECTION_LOST',
  'PROTOCOL_SEQUENCE_TIMEOUT',
  'HANDSHAKE_NO_SSL_SUPPORT',
  'ER_ACCESS_DENIED_ERROR',
  'ER_DBACCESS_DENIED_ERROR',
  'ER_BAD_DB_ERROR',
  'ER_CON_COUNT_ERROR',
  'ER_TOO_MANY_USER_CONNECTIONS',
  'ER_USER_LIMIT_REACHED',
  'ER_SERVER_SHUTDOWN',
  'ER_CONNECTION_KILLED',
  'ER_NORMAL_SHUTDOWN',
  'ER_OPTION_PREVENTS_STATEMENT',
  'ER_READ_ONLY_MODE',
  'ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION',
  'ER_UNKNOWN_COM_ERROR',
  'ER_DISK_FULL',
  'ER_RECORD_FILE_FULL',
  'ER_QUERY_INTERRUPTED',
])

// Another transaction was in the way; nothing of this one was stored.
const contended = new Set(['ER_LOCK_DEADLOCK', 'ER_LOCK_WAIT_TIMEOUT', 'ER_CHECKREAD'])

/** Another transaction was in the way, though the database has not said so: to be tried again. */
export const contentionError = (message: string): CodedError =>
  Object.assign(new Error(message), { code: 'ER_CHECKREAD' })

export function isDuplicate(error: unknown): boolean {
  return hasCode(error) && error.code === 'ER_DUP_ENTRY'
}

/** Another transaction holds a row that this one must not wait for, or has waited for too long. */
export function isLocked(error: unknown): boolean {
  // MariaDB has one code for both.
  return hasCode(error) && ['ER_LOCK_NOWAIT', 'ER_LOCK_WAIT_TIMEOUT'].includes(error.code)
}

/** The server has ended a statement that took longer than it may; a transaction goes on without it. */
export function isOutOfTime(error: unknown): boolean {
  // mysql2 has no name for MariaDB's ER_STATEMENT_TIMEOUT, 1969.
  return error instanceof Error && 'errno' in error && (error.errno === 3024 || error.errno === 1969)
}

/** The database cannot be reached, as opposed to: it answered with an error. */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // Knex has no code for a full pool, mysql2 none for a statement sent on a connection that has just ended.
  if (error.name === 'KnexTimeoutError') return true
  // What the server says has the statement before it, and in that anything may stand.
  if (!('sqlMessage' in error) && /closed state|Connection lost/.test(error.message)) return true
  return isOutOfTime(error) || (hasCode(error) && unreachable.has(error.code))
}

// Waiting mends none of these: the address, the user or the schema is wrong.
const misconfigured = new Set(['ER_ACCESS_DENIED_ERROR', 'ER_DBACCESS_DENIED_ERROR', 'ER_BAD_DB_ERROR'])

/** At boot: the server may come up yet, as opposed to: it is up and turns us away. */
export function isNotUpYet(error: unknown): boolean {
  return isUnreachable(error) && !(hasCode(error) && misconfigured.has(error.code))
}

/** At boot: the database is up, and turns us away. */
export class RefusedError extends Error {
  constructor(error: CodedError) {
    super(`the database refuses its user (${reasonOf(error)}): correct DATABASE_URL, or the user's rights`)
    this.name = 'RefusedError'
  }
}

/** What a client is told of a failed statement; an error that is already the client's passes through. */
export function translate(error: unknown): unknown {
  if (error instanceof ApiError) return error
  if (isUnreachable(error) || (hasCode(error) && contended.has(error.code))) return unavailable(error)
  return error
}

const MAX_PAUSE_MS = 200

/**
 * Repeats a whole transaction that lost a deadlock or waited too long for a lock, with jitter so that the same two do
 * not meet again.
 * @param timeoutMs after which it is not repeated any more
 */
export function retryContention<T>(attempt: () => Promise<T>, timeoutMs: number): Promise<T> {
  return retry(attempt, {
    timeoutMs,
    pauseMs: tries => Math.random() * Math.min(MAX_PAUSE_MS, 5 * 2 ** tries),
    isTransient: error => hasCode(error) && contended.has(error.code),
  })
}
