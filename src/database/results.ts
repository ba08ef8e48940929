// Results of statements. The driver and Knex return them without a type.
import type { Knex } from 'knex'
import { isObject, type JsonObject } from '../core/json-object.ts'

/** A row by its columns. */
export type Columns = JsonObject

/** The result of a statement that modifies rows. */
export interface Modified {
  readonly insertId: number
  /** Includes rows that already had the new values. */
  readonly affectedRows: number
  /** The rows of RETURNING, which MariaDB supports. */
  readonly returned?: readonly Columns[]
}

const isRows = (result: unknown): result is Columns[] => Array.isArray(result) && result.every(isObject)

/** Returns the rows of a query. @throws TypeError for a result without rows */
export function rowsOf(result: unknown): Columns[] {
  if (isRows(result)) return result
  throw new TypeError('the result of the statement is not a list of rows')
}

/** @throws TypeError for a result that neither tells the number of rows nor lists them */
export function modifiedOf(result: unknown): Modified {
  if (isRows(result)) return { insertId: 0, affectedRows: result.length, returned: result }
  if (isObject(result) && typeof result.affectedRows === 'number') {
    // The driver returns an id above 2^53 as text.
    const insertId = Number(result.insertId)
    if (!Number.isNaN(insertId)) return { insertId, affectedRows: result.affectedRows }
  }
  throw new TypeError('the result of the statement has no number of rows')
}

/** @param bindings of `?`, which stands for a value, and of `??`, which stands for a name */
export async function rawRows(knex: Knex, sql: string, bindings: readonly string[] = []): Promise<Columns[]> {
  const result: unknown = await knex.raw(sql, bindings)
  return rowsOf(Array.isArray(result) ? result[0] : undefined)
}
