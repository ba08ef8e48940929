// A row of a resource's table, and the values of its fields.

/** A row as the database gives it; `version` is new after every write to the row or its memberships. */
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

/** @throws TypeError for what is no row of a resource's table */
export function readRow(value: unknown): Row {
  if (isRow(value)) return value
  throw new TypeError('the database gave a row without id or version')
}

/** The values of a resource's fields; `null` is a field that is missing. */
export type Values = Readonly<Record<string, string | null>>
