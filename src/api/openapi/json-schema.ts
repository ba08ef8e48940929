// JSON Schema 2020-12: what every part of the document builds its schemas with.
import { MAX_ID, type Resource, type TextField } from '../../model/resource.ts'

export type Schema = Readonly<Record<string, unknown>>

export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

export const oneOf = (...names: string[]): Schema => ({ oneOf: names.map(ref) })

/** `user` as the name of a type or a tag: `User`. */
export const capital = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1)

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

/** Lengths count code points, in JSON Schema as in the definition. */
export const textSchema = ({ maxCodePoints, example }: TextField): Schema => ({
  type: 'string',
  minLength: 1,
  maxLength: maxCodePoints,
  pattern: '^[^\\p{Cc}\\p{Cs}]*[^\\p{Cc}\\p{Cs}\\p{White_Space}][^\\p{Cc}\\p{Cs}]*$',
  examples: [example],
})

/** The fields of a resource, by name. */
export function fieldsOf(resource: Resource, schemaOf = textSchema): Record<string, Schema> {
  return Object.fromEntries(Object.entries(resource.fields).map(([name, field]) => [name, schemaOf(field)]))
}

/** The fields that a record may be without. */
export const removableOf = ({ fields }: Resource): string[] =>
  Object.keys(fields).filter(name => fields[name]?.required === 'create')
