// Reads the code and the message of errors from drivers and from the operating system.
import { ApiError } from './api-error.ts'

export interface CodedError extends Error {
  readonly code: string
}

/** Whether an error has a code: one of `codes`, or any if there are none. */
export function hasCode(error: unknown, ...codes: readonly string[]): error is CodedError {
  if (!(error instanceof Error && 'code' in error && typeof error.code === 'string')) return false
  return codes.length === 0 || codes.includes(error.code)
}

/**
 * Returns the message of the server or the network. That of the server is without the SQL statement that Knex prepends; that of the
 * network keeps it, without values. The reason of an ApiError is its cause: its own message is for the client.
 */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof ApiError && error.cause !== undefined) return reasonOf(error.cause)
  if ('sqlMessage' in error && typeof error.sqlMessage === 'string') return error.sqlMessage
  // The messages of OpenSSL end with a line break. If all addresses of a host refuse the connection, the AggregateError has a code
  // but no message.
  return error.message.trim() || (hasCode(error) ? error.code : error.name)
}

/** Returns the cause of an error of `fetch`, whose own message says only that it has failed. */
export const fetchCauseOf = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof Error ? error.cause : error
