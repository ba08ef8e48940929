// Builds JSON Schema 2020-12 schemas from the definitions of resources.
import { MAX_ID, type Resource, type TextField } from '../../model/resource.ts'

export type Schema = Readonly<Record<string, unknown>>

export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

export const oneOf = (...names: string[]): Schema => ({ oneOf: names.map(ref) })

/** Returns the name of a resource as the name of a schema or tag: `User` for `user`. */
export const capitalize = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1)

export const idSchema: Schema = { type: 'integer', format: 'int64', minimum: 1, maximum: MAX_ID }

export const messageSchema: Schema = { type: 'string' }

export const integer = (minimum: number): Schema => ({ type: 'integer', minimum })

export const listOf = (items: Schema): Schema => ({ type: 'array', items })

export function object(properties: Readonly<Record<string, Schema>>, optional: readonly string[] = []) {
  return {
    type: 'object',
    required: Object.keys(properties).filter(name => !optional.includes(name)),
    properties,
  } as const
}

/** Lengths are in code points, both in JSON Schema and in the definition of the field. */
export const textSchema = ({ maxCodePoints, example }: TextField): Schema => ({
  type: 'string',
  minLength: 1,
  maxLength: maxCodePoints,
  pattern: '^[^\\p{Cc}\\p{Cs}]*[^\\p{Cc}\\p{Cs}\\p{White_Space}][^\\p{Cc}\\p{Cs}]*$',
  examples: [example],
})

/** The schemas of a resource's fields, by field name. */
export function fieldSchemas(resource: Resource, schemaOf = textSchema): Record<string, Schema> {
  return Object.fromEntries(Object.entries(resource.fields).map(([name, field]) => [name, schemaOf(field)]))
}

/** The names of the fields that a stored record can lack. */
export const removableFields = ({ fields }: Resource): string[] =>
  Object.keys(fields).filter(name => fields[name]?.required !== 'always')

/** The names of the fields that a new record can lack. */
export const optionalFields = ({ fields }: Resource): string[] =>
  Object.keys(fields).filter(name => fields[name]?.required === false)
