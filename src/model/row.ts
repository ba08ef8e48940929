// Rows of a resource's table.
import { unavailable } from '../core/api-error.ts'

/** A row of the database. `version` changes with every write to the row or its memberships. */
export interface Row {
  readonly id: number
  readonly version: number
  /** The token of the related resources, if it was read with the row. */
  readonly generation?: number
  readonly [field: string]: unknown
}

function isRow(value: unknown): value is Row {
  return (
    typeof value === 'object' &&
    value !== null &&
    'id' in value &&
    typeof value.id === 'number' &&
    'version' in value &&
    typeof value.version === 'number' &&
    (!('generation' in value) || typeof value.generation === 'number')
  )
}

/**
 * Validates a row of a query result. If a query is interrupted, MariaDB can return NULL for a subquery instead of an error.
 * @throws ApiError `unavailable` if id, version or generation is not a number
 */
export function readRow(value: unknown): Row {
  if (isRow(value)) return value
  throw unavailable(new TypeError('the database returned a row without id, version or generation'))
}

/** Field values of a resource; `null` is a missing field. */
export type Values = Readonly<Record<string, string | null>>
