// Locking the rows that many clients are about to change. A row that somebody holds for long, an operator in an open
// transaction or another tool, is left out: nobody is to wait for it but who wants to change that very row.
import type { Knex } from 'knex'
import type { Resource } from '../../model/resource.ts'
import { type Row, readRow } from '../../model/row.ts'
import type { Database } from '../database.ts'
import { isOutOfTime } from '../driver-errors.ts'

/** Longer than transactions of our own hold a row, be there a line for it. */
const TIMEOUT_MS = 250

/** Each server ends the statement by its own means, and takes the other's for a comment; what was locked stays so. */
const select = `/*M! SET STATEMENT max_statement_time = ${TIMEOUT_MS / 1000} FOR */
  SELECT /*+ MAX_EXECUTION_TIME(${TIMEOUT_MS}) */`

export interface Locked {
  /** Those that there are, by their ids. */
  readonly rows: Map<number, Row>
  /** The ids of those that are somebody else's at the moment. */
  readonly lockedElsewhere: ReadonlySet<number>
}

export function createRowLocks(
  database: Database,
  { plural: table, fields }: Resource,
): (trx: Knex.Transaction, ids: readonly number[]) => Promise<Locked> {
  // In the order of their ids, so that two transactions never wait for each other's rows. By the index, for who reads a
  // whole small table waits for all of its rows.
  const lockSql = `id, version, ${Object.keys(fields).join(', ')}
    FROM \`${table}\` FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY id FOR UPDATE`
  const readSql = `SELECT id FROM \`${table}\` WHERE id IN (?)`

  return async (trx, ids) => {
    const query = async (sql: string) => {
      const found = (await database.query(sql, [ids], trx)).map(readRow)
      return new Map(found.map(row => [row.id, row]))
    }
    try {
      return { rows: await query(`${select} ${lockSql}`), lockedElsewhere: new Set() }
    } catch (error) {
      if (!isOutOfTime(error)) throw error
    }
    const rows = await query(`SELECT ${lockSql} SKIP LOCKED`)
    // What is there, but was skipped. What is not there is nobody's.
    const there = await database.query(readSql, [ids], trx)
    return { rows, lockedElsewhere: new Set(there.map(({ id }) => Number(id)).filter(id => !rows.has(id))) }
  }
}
