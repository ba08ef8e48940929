// Classifies driver errors: unreachable database, contention that is retried, or a conflict for the client.
import { ApiError, unavailable } from '../core/api-error.ts'
import { type CodedError, hasCode, reasonOf } from '../core/error-reason.ts'
import { retry } from '../core/retry.ts'
import { contended, demoted, denied, full, locked, misconfigured, unreachable } from './error-codes.ts'
import type { Modified } from './results.ts'

/**
 * Whether COMMIT has failed because another server of the group has committed a conflicting transaction. MySQL 9.7 reports
 * this as error 149 (HA_ERR_LOCK_DEADLOCK) of the storage engine, with the code of all errors during COMMIT.
 */
const isCommitConflict = (error: unknown): boolean =>
  hasCode(error, 'ER_ERROR_DURING_COMMIT') && /\berror 149\b/.test(reasonOf(error))

/** Whether another transaction, or a change of the schema, is in the way: a repetition can succeed. */
export function isContention(error: unknown): boolean {
  return hasCode(error, ...contended) || isCommitConflict(error)
}

/** Short: the next transaction of another server can end while this one pauses, and then this one fails again. */
const MAX_PAUSE_MS = 30

/** Repeats an operation on contention, or as long as its error `isTransient`. */
export const retryContention = <T>(
  operation: () => PromiseLike<T>,
  timeoutMs: number,
  isTransient: (error: unknown, attempt: number) => boolean = isContention,
): Promise<T> =>
  retry(async () => operation(), {
    timeoutMs,
    // The jitter keeps two transactions from colliding again.
    pauseMs: attempt => Math.random() * Math.min(MAX_PAUSE_MS, 5 * 2 ** attempt),
    isTransient,
  })

/** Creates the error of a lock that another session holds. The message is logged, so it contains no names. */
export const lockedError = (): CodedError =>
  Object.assign(new Error('another session holds a lock'), { code: 'ER_LOCK_NOWAIT' })

/**
 * Checks how many rows a statement has changed. MariaDB may change none, without an error, if the statement is interrupted.
 * A server that ignores SKIP LOCKED may have changed the rows in another transaction meanwhile.
 * @throws CodedError after which the transaction is repeated: contention that the database did not report itself
 */
export function assertRowCount(table: string, { affectedRows }: Modified, expected: number): void {
  if (affectedRows === expected) return
  const message = `${affectedRows} rows of ${table} were changed, not ${expected}`
  throw Object.assign(new Error(message), { code: 'ER_CHECKREAD' })
}

/** Whether a row has the values of another one in a unique index. */
export function isDuplicate(error: unknown): boolean {
  return hasCode(error, 'ER_DUP_ENTRY')
}

/** Whether the table has the column or the index already that a statement adds. */
export function isAddedTwice(error: unknown): boolean {
  return hasCode(error, 'ER_DUP_FIELDNAME', 'ER_DUP_KEYNAME')
}

/** Whether another transaction holds a lock, with NOWAIT or after a lock wait timeout. */
export function isLocked(error: unknown): boolean {
  return hasCode(error, ...locked)
}

/** Whether the server ended a statement at its time limit. */
export function isStatementTimeout(error: unknown): boolean {
  // 3024 is ER_QUERY_TIMEOUT. mysql2 has no name for MariaDB's ER_STATEMENT_TIMEOUT, 1969.
  return error instanceof Error && 'errno' in error && (error.errno === 3024 || error.errno === 1969)
}

/** Whether the server of this connection accepts no writes. A new connection can reach another server. */
export function isDemoted(error: unknown): boolean {
  return hasCode(error, ...demoted) && !isCommitConflict(error)
}

/**
 * Whether the account lacks a privilege. The server reads the privileges of a database when a connection is opened
 * (https://dev.mysql.com/doc/refman/8.4/en/privilege-changes.html), so one that is granted later needs a new connection.
 */
export function isDenied(error: unknown): boolean {
  return hasCode(error, ...denied)
}

/** Whether the server accepts no further connection. Those that are open still work. */
export function isFull(error: unknown): boolean {
  return hasCode(error, ...full)
}

/** Whether the database is unreachable; false if it replied with another error. */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // Knex has no error codes for a pool that is full or closed, mysql2 has none for a statement on a closed connection.
  if (error.name === 'KnexTimeoutError') return true
  // The message of a server error is not searched: it contains the statement, which can contain any text. The error of several
  // hosts has the messages of all, and the code of only one.
  const isClosed = /closed state|Connection lost|^aborted$|^Unable to acquire a connection$/.test(
    error.message,
  )
  if (isClosed && !('sqlMessage' in error)) return true
  return isStatementTimeout(error) || (hasCode(error, ...unreachable) && !isCommitConflict(error))
}

/** Whether the database may be unable to serve: it is unreachable, or has replied with an error that no request explains. */
export function isFailure(error: unknown): boolean {
  if (error instanceof ApiError || isContention(error) || isDuplicate(error)) return false
  return isUnreachable(error) || hasCode(error)
}

/** Whether the server has ended the connection during the TLS handshake: the driver replaces the code of each error there. */
const isCutHandshake = ({ code, message }: CodedError): boolean =>
  code === 'HANDSHAKE_SSL_ERROR' && /\b(ECONNRESET|EPIPE|socket disconnected)\b/.test(message)

/** At boot: whether the server can still become reachable; false if it runs and rejects the connection. */
export function isNotUpYet(error: unknown): boolean {
  if (hasCode(error, ...misconfigured)) return isCutHandshake(error)
  return isUnreachable(error)
}

/** Converts unreachability and contention to ApiError `unavailable`. Other errors are returned unchanged. */
export function translate(error: unknown): unknown {
  if (error instanceof ApiError) return error
  if (isUnreachable(error) || isContention(error)) return unavailable(error)
  return error
}

/** Returns what a command or a start says about a server that runs and cannot be used. */
export const rejectionOf = (error: CodedError): string =>
  error.code === 'HANDSHAKE_SSL_ERROR' || error.code === 'HANDSHAKE_NO_SSL_SUPPORT'
    ? `the TLS connection to the database fails (${reasonOf(error)}): correct its certificate or DATABASE_URL, or add an authority with NODE_EXTRA_CA_CERTS`
    : `the database rejects the connection (${reasonOf(error)}): correct DATABASE_URL, or the privileges of its user`
