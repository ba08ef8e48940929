// Rows of a resource's table.

/** A row of the database. `version` changes with every write to the row or its memberships. */
export interface Row {
  readonly id: number
  readonly version: number
  readonly [field: string]: unknown
}

function isRow(value: unknown): value is Row {
  return (
    typeof value === 'object' &&
    value !== null &&
    'id' in value &&
    typeof value.id === 'number' &&
    'version' in value &&
    typeof value.version === 'number'
  )
}

/** Validates a row of a query result. @throws TypeError if id or version is missing */
export function readRow(value: unknown): Row {
  if (isRow(value)) return value
  throw new TypeError('the database returned a row without id or version')
}

/** Field values of a resource; `null` is a missing field. */
export type Values = Readonly<Record<string, string | null>>
