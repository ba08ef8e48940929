// Reads that are given up as soon as they are slow.
import type { Knex } from 'knex'
import { ApiError } from '../../core/api-error.ts'
import { isStatementTimeout } from '../driver-errors.ts'
import { createStatements, type Statements, transact } from '../transaction.ts'

/**
 * Returns a query with a time limit of its own. MariaDB executes the comment before it, MySQL the one in it
 * (https://mariadb.com/kb/en/set-statement/, https://dev.mysql.com/doc/refman/8.4/en/optimizer-hints.html).
 */
const limited = (sql: string, limitMs: number): string =>
  `/*M! SET STATEMENT max_statement_time = ${limitMs / 1000} FOR */ ${sql.replace(/^select/i, `$& /*+ MAX_EXECUTION_TIME(${limitMs}) */`)}`

/**
 * Runs reads in one consistent snapshot.
 * @returns undefined if one of their statements takes longer than `limitMs`
 */
export async function trySnapshot<T>(
  knex: Knex,
  act: (on: Statements) => Promise<T>,
  limitMs: number,
): Promise<T | undefined> {
  try {
    return await transact(
      knex,
      trx => {
        const on = createStatements(knex, (sql, values) => trx.query(limited(sql, limitMs), values))
        return act(on)
      },
      'REPEATABLE READ',
    )
  } catch (error) {
    // MariaDB can end a subquery without an error: then the page has no total, which is `unavailable`.
    const isIncomplete = error instanceof ApiError && error.code === 'unavailable'
    if (isIncomplete || isStatementTimeout(error)) return undefined
    throw error
  }
}
