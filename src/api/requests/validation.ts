// Validates request bodies against a resource definition. All faults are reported at once.
import type { ErrorCode, Fault, Faults } from '../../core/api-error.ts'
import type { JsonObject } from '../../core/json-object.ts'
import { shortened } from '../../core/quoted.ts'
import { MAX_ID, type Resource, type TextField } from '../../model/resource.ts'
import type { Values } from '../../model/row.ts'

/** `replace` sets every field; `create` and `patch` only the fields of the body. */
export type Mode = 'create' | 'replace' | 'patch'

/** The body of a membership: the id of the related record; undefined only if it is faulty. */
export type Reference = { readonly id: number | undefined }

/** An entry of a PATCH of a collection: the id of a record, and the fields to change. The id is missing only if it is faulty. */
type EntryChange = Reference & { readonly values: Values }

function isId(value: unknown): value is number {
  return Number.isInteger(value) && typeof value === 'number' && value >= 1 && value <= MAX_ID
}

/** Counts code points, as the database does, not UTF-16 units. */
function isLongerThan(text: string, codePoints: number): boolean {
  return text.length > codePoints && (text.length > 2 * codePoints || [...text].length > codePoints)
}

const control = /\p{Cc}/u
const onlyWhiteSpace = /^\p{White_Space}+$/u

/** Returns what is wrong with `value`, or undefined if it is valid. */
function textFault(value: unknown, { maxCodePoints }: TextField): string | undefined {
  if (typeof value !== 'string') return 'must be a string'
  if (value === '' || isLongerThan(value, maxCodePoints))
    return `must be 1 to ${maxCodePoints} characters long`
  if (!value.isWellFormed()) return 'must not contain a lone surrogate'
  if (control.test(value)) return 'must not contain control characters'
  if (onlyWhiteSpace.test(value)) return 'must not consist only of white space'
  return undefined
}

/** A fault whose message begins with the name of the field. */
const faultOf = (field: string, code: ErrorCode, message: string): Fault => ({
  field,
  code,
  message: `${field}: ${message}`,
})

/** A body may repeat the id of the path. */
function idFault(id: unknown, mode: Mode, pathId: number | undefined): Fault | undefined {
  if (id === undefined || (id === null && mode !== 'patch')) return undefined
  if (mode === 'create') return faultOf('id', 'invalid_field', 'is set by the server')
  if (typeof id !== 'number') return faultOf('id', 'invalid_field', `must be an integer from 1 to ${MAX_ID}`)
  if (id === pathId) return undefined
  return faultOf('id', 'id_mismatch', `is ${id} in the body, but ${pathId} in the path`)
}

/** Adds a fault for each field of a body that is neither `id` nor `meta` nor a field of the resource. */
function addUnknownFields(
  faults: Faults,
  body: JsonObject,
  { fields }: Resource,
  faultOfField: (shortName: string) => Fault,
): void {
  for (const name in body)
    if (name !== 'id' && name !== 'meta' && !Object.hasOwn(fields, name))
      faults.add(() => faultOfField(shortened(name)))
}

const unknownFault = (field: string, of: string, allowed: string): Fault => ({
  field,
  code: 'unknown_field',
  message: `${JSON.stringify(field)} is not a field of a ${of}; allowed: ${allowed}`,
})

/**
 * Validates the body of a record.
 * @param faults receives what is wrong with the body
 * @param pathId the id in the path, for `replace` and `patch`
 * @returns the valid fields
 */
export function checkBody(
  resource: Resource,
  body: JsonObject,
  mode: Mode,
  faults: Faults,
  pathId?: number,
): Values {
  const { singular, plural, fields } = resource
  const values: Record<string, string | null> = {}
  const idWrong = idFault(body.id, mode, pathId)
  if (idWrong !== undefined) faults.add(() => idWrong)
  for (const [field, definition] of Object.entries(fields)) {
    const value = Object.hasOwn(body, field) ? body[field] : undefined
    if (value === undefined && mode === 'patch') continue
    if (value === undefined || value === null) {
      if (definition.required === 'always' || (definition.required === 'create' && mode === 'create'))
        faults.add(() => faultOf(field, 'missing_field', 'is required'))
      else if (mode !== 'create') values[field] = null
      continue
    }
    const wrong = textFault(value, definition)
    if (wrong !== undefined) faults.add(() => faultOf(field, 'invalid_field', wrong))
    else if (typeof value === 'string') values[field] = value
  }
  addUnknownFields(faults, body, resource, field => {
    const path = `/v1/${plural}/<id>/${field}`
    const isRelation = resource.relations.some(({ name }) => name === field)
    return isRelation
      ? faultOf(field, 'invalid_field', `cannot be set here; use POST and DELETE on ${path}`)
      : unknownFault(field, singular, Object.keys(fields).join(', '))
  })
  return values
}

/** Validates the id of a record that a body refers to. @returns undefined, after a fault, if it is missing or invalid */
function checkRequiredId(id: unknown, faults: Faults): number | undefined {
  if (isId(id)) return id
  faults.add(() =>
    id === undefined || id === null
      ? faultOf('id', 'missing_field', 'is required')
      : faultOf('id', 'invalid_field', `must be an integer from 1 to ${MAX_ID}`),
  )
  return undefined
}

/** Validates an entry of a PATCH of a collection. @param faults receives what is wrong with it */
export function checkChange(resource: Resource, { id, ...fields }: JsonObject, faults: Faults): EntryChange {
  return { id: checkRequiredId(id, faults), values: checkBody(resource, fields, 'patch', faults) }
}

/**
 * Validates the body of a membership, which has the `id` of the related record. Its other fields and `meta` are ignored,
 * so that a client can send the record back as it read it.
 * @param faults receives what is wrong with the body
 */
export function checkReference(to: Resource, body: JsonObject, faults: Faults): Reference {
  const id = checkRequiredId(body.id, faults)
  addUnknownFields(faults, body, to, field => unknownFault(field, 'membership', 'id'))
  return { id }
}
