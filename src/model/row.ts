// Rows of a resource's table.
import { unavailable } from '../core/api-error.ts'
import type { JsonObject } from '../core/json-object.ts'
import type { Resource } from './resource.ts'

/**
 * A row of the database. `version` changes with every change of the row or its memberships. The end of a related record, with its
 * memberships, changes only `generation`.
 */
export interface Row {
  readonly id: number
  readonly version: number
  /** The token of the related resources, if it was read with the row. */
  readonly generation?: number | undefined
  readonly [field: string]: unknown
}

function isRow(value: JsonObject): value is Row {
  return (
    typeof value.id === 'number' &&
    typeof value.version === 'number' &&
    (!('generation' in value) || typeof value.generation === 'number')
  )
}

/**
 * Validates a row of a query result. If a query is interrupted, MariaDB can return NULL for a subquery instead of an error.
 * @throws ApiError `unavailable` if id, version or generation is not a number
 */
export function readRow(value: JsonObject): Row {
  if (isRow(value)) return value
  throw unavailable(new TypeError('the database returned a row without id, version or generation'))
}

/**
 * Returns the value of a field; null if it is missing. Here a definition first meets its column, which can also change later.
 * @throws TypeError for a column of another kind than text
 */
export function readField({ plural }: Resource, field: string, row: JsonObject): string | null {
  const value = row[field] ?? null
  if (typeof value === 'string' || value === null) return value
  throw new TypeError(
    `the column ${field} of ${plural} returns a ${typeof value}: fields are text, so use a column of VARCHAR`,
  )
}

/** Field values of a resource; `null` is a missing field. */
export type Values = Readonly<Record<string, string | null>>
