// Validates request bodies against a resource definition. All faults are reported at once.
import { type ErrorCode, type Fault, shortened } from '../../core/api-error.ts'
import { limitedRelations, MAX_ID, type Resource, type TextField } from '../../model/resource.ts'
import type { Values } from '../../model/row.ts'

/** `replace` sets every field; `create` and `patch` only the fields of the body. */
export type Mode = 'create' | 'replace' | 'patch'

/** The valid fields of a body, and the faults of the others. */
export interface Checked<Fields> {
  readonly values: Fields
  readonly faults: readonly Fault[]
}

/** The body of a membership: the id of the related record. It is missing only if it is faulty. */
export type Reference = { readonly id?: number }

export type JsonObject = Readonly<Record<string, unknown>>

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isId(value: unknown): value is number {
  return Number.isInteger(value) && typeof value === 'number' && value >= 1 && value <= MAX_ID
}

/** Counts code points, as the database does, not UTF-16 units. */
function isLongerThan(text: string, codePoints: number): boolean {
  return text.length > codePoints && (text.length > 2 * codePoints || [...text].length > codePoints)
}

/** Returns what is wrong with `value`, or undefined if it is valid. */
function textFault(value: unknown, { maxCodePoints }: TextField): string | undefined {
  if (typeof value !== 'string') return 'must be a string'
  if (value === '' || isLongerThan(value, maxCodePoints))
    return `must be 1 to ${maxCodePoints} characters long`
  if (!value.isWellFormed()) return 'must not contain a lone surrogate'
  if (/\p{Cc}/u.test(value)) return 'must not contain control characters'
  if (/^\p{White_Space}+$/u.test(value)) return 'must not consist only of white space'
  return undefined
}

/** A fault whose message begins with the name of the field. */
const faultOf = (field: string, code: ErrorCode, message: string): Fault => ({
  field,
  code,
  message: `${field}: ${message}`,
})

/** A body may repeat the id of the path. */
function idFaults(id: unknown, mode: Mode, pathId: number | undefined): Fault[] {
  if (id === undefined || (id === null && mode !== 'patch')) return []
  if (mode === 'create') return [faultOf('id', 'invalid_field', 'is set by the server')]
  if (typeof id !== 'number') return [faultOf('id', 'invalid_field', 'must be a positive integer')]
  if (id === pathId) return []
  return [faultOf('id', 'id_mismatch', `is ${id} in the body, but ${pathId} in the path`)]
}

/** Returns the shortened names of the fields of a body that are neither `id` nor `meta` nor fields of the resource. */
const unknownFields = (body: JsonObject, { fields }: Resource): string[] =>
  Object.keys(body)
    .filter(name => name !== 'id' && name !== 'meta' && !Object.hasOwn(fields, name))
    .map(shortened)

const unknownFault = (field: string, of: string, allowed: string): Fault => ({
  field,
  code: 'unknown_field',
  message: `${JSON.stringify(field)} is not a field of a ${of}; allowed: ${allowed}`,
})

/** Validates the body of a record. @param pathId the id in the path, for `replace` and `patch` */
export function checkBody(
  resource: Resource,
  body: JsonObject,
  mode: Mode,
  pathId?: number,
): Checked<Values> {
  const { singular, plural, fields } = resource
  const values: Record<string, string | null> = {}
  const faults = idFaults(body.id, mode, pathId)
  for (const [field, definition] of Object.entries(fields)) {
    const value = Object.hasOwn(body, field) ? body[field] : undefined
    if (value === undefined && mode === 'patch') continue
    if (value === undefined || value === null) {
      if (definition.required === 'always' || (definition.required === 'create' && mode === 'create'))
        faults.push(faultOf(field, 'missing_field', 'is required'))
      else if (mode !== 'create') values[field] = null
      continue
    }
    const wrong = textFault(value, definition)
    if (wrong !== undefined) faults.push(faultOf(field, 'invalid_field', wrong))
    else if (typeof value === 'string') values[field] = value
  }
  for (const field of unknownFields(body, resource)) {
    const path = `/v1/${plural}/<id>/${field}`
    const isRelation = limitedRelations(resource).some(({ name }) => name === field)
    faults.push(
      isRelation
        ? faultOf(field, 'invalid_field', `cannot be set here; use POST and DELETE on ${path}`)
        : unknownFault(field, singular, Object.keys(fields).join(', ')),
    )
  }
  return { values, faults }
}

/**
 * Validates the body of a membership, which has the `id` of the related record. Its other fields and `meta` are ignored,
 * so that a client can send the record back as it read it.
 */
export function checkReference(to: Resource, body: JsonObject): Checked<Reference> {
  const { id } = body
  const faults = unknownFields(body, to).map(field => unknownFault(field, 'membership', 'id'))
  if (isId(id)) return { values: { id }, faults }
  const isMissing = id === undefined || id === null
  const fault = isMissing
    ? faultOf('id', 'missing_field', 'is required')
    : faultOf('id', 'invalid_field', 'must be a positive integer')
  return { values: {}, faults: [fault, ...faults] }
}
