// What an error of a driver or of the operating system says.

export interface CodedError extends Error {
  readonly code: string
}

export function hasCode(error: unknown): error is CodedError {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
}

/** What went wrong, in the server's or the network's words: without the statement, which Knex puts before them. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ('sqlMessage' in error && typeof error.sqlMessage === 'string') return error.sqlMessage
  // Where every address of a host refuses, there is a code alone.
  return error.message || (hasCode(error) ? error.code : error.name)
}
