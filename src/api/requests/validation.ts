// Validates request bodies against a resource definition. All faults are reported at once.
import { type Fault, shortened } from '../../core/api-error.ts'
import { limitedRelations, MAX_ID, type Resource, type TextField } from '../../model/resource.ts'
import type { Values } from '../../model/row.ts'

/** `replace` sets every field; `create` and `patch` only the fields of the body. */
export type Mode = 'create' | 'replace' | 'patch'

/** The valid fields of a body, and the faults of the others. */
export interface Checked<Values> {
  readonly values: Values
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

/** A body may repeat the id of the path. */
function idFault(id: unknown, mode: Mode, pathId: number | undefined): Fault | undefined {
  if (id === undefined || (id === null && mode !== 'patch')) return undefined
  if (mode === 'create') return { field: 'id', code: 'invalid_field', message: 'id: is set by the server' }
  if (typeof id !== 'number')
    return { field: 'id', code: 'invalid_field', message: 'id: must be a positive integer' }
  if (id !== pathId)
    return {
      field: 'id',
      code: 'id_mismatch',
      message: `id: is ${id} in the body, but ${pathId} in the path`,
    }
  return undefined
}

function unknownFault(resource: Resource, name: string): Fault {
  const field = shortened(name)
  if (limitedRelations(resource).some(({ name }) => name === field)) {
    const path = `/v1/${resource.plural}/<id>/${field}`
    return {
      field,
      code: 'invalid_field',
      message: `${field}: cannot be set here; use POST and DELETE on ${path}`,
    }
  }
  const allowed = Object.keys(resource.fields).join(', ')
  return {
    field,
    code: 'unknown_field',
    message: `${JSON.stringify(field)} is not a field of a ${resource.singular}; allowed: ${allowed}`,
  }
}

/** Validates the body of a record. @param pathId the id in the path, for `replace` and `patch` */
export function checkBody(
  resource: Resource,
  body: JsonObject,
  mode: Mode,
  pathId?: number,
): Checked<Values> {
  const values: Record<string, string | null> = {}
  const faults: Fault[] = []
  const wrongId = idFault(body.id, mode, pathId)
  if (wrongId !== undefined) faults.push(wrongId)
  for (const [field, definition] of Object.entries(resource.fields)) {
    const value = Object.hasOwn(body, field) ? body[field] : undefined
    if (value === undefined && mode === 'patch') continue
    if (value === undefined || value === null) {
      if (definition.required === 'always' || (definition.required === 'create' && mode === 'create'))
        faults.push({ field, code: 'missing_field', message: `${field}: is required` })
      else if (mode !== 'create') values[field] = null
      continue
    }
    const wrong = textFault(value, definition)
    if (wrong !== undefined) faults.push({ field, code: 'invalid_field', message: `${field}: ${wrong}` })
    else if (typeof value === 'string') values[field] = value
  }
  for (const field of Object.keys(body))
    if (field !== 'id' && field !== 'meta' && !Object.hasOwn(resource.fields, field))
      faults.push(unknownFault(resource, field))
  return { values, faults }
}

const unknownInReference = (field: string): Fault => ({
  field,
  code: 'unknown_field',
  message: `${JSON.stringify(field)} is not a field of a membership; allowed: id`,
})

/**
 * Validates the body of a membership, which has the `id` of the related record. Its other fields and `meta` are ignored,
 * so that a client can send the record back as it read it.
 */
export function checkReference(to: Resource, body: JsonObject): Checked<Reference> {
  const faults: Fault[] = []
  const { id } = body
  if (id === undefined || id === null)
    faults.push({ field: 'id', code: 'missing_field', message: 'id: is required' })
  else if (!isId(id))
    faults.push({ field: 'id', code: 'invalid_field', message: 'id: must be a positive integer' })
  for (const field of Object.keys(body))
    if (field !== 'id' && field !== 'meta' && !Object.hasOwn(to.fields, field))
      faults.push(unknownInReference(shortened(field)))
  return { values: isId(id) ? { id } : {}, faults }
}
