// Builds JSON Schema 2020-12 schemas from the definitions of resources.
import { MAX_ID, type Resource, type TextField } from '../../model/resource.ts'

export type Schema = Readonly<Record<string, unknown>>

export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

export const oneOf = (...names: string[]): Schema => ({ oneOf: names.map(ref) })

/** Returns the name of a resource as the name of a schema or tag: `User` for `user`. */
export const capitalize = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1)

export const idSchema: Schema = { type: 'integer', format: 'int64', minimum: 1, maximum: MAX_ID }

export const text: Schema = { type: 'string' }

export const integer = (minimum: number, maximum?: number): Schema => ({ type: 'integer', minimum, maximum })

export const listOf = (items: Schema): Schema => ({ type: 'array', items })

/** Schemas by name. In an object, members whose names end with `?` are optional. */
export type Schemas = Readonly<Record<string, Schema>>

export const object = (members: Schemas) => ({
  type: 'object',
  required: Object.keys(members).filter(name => !name.endsWith('?')),
  properties: Object.fromEntries(
    Object.entries(members).map(([name, schema]) => [name.replace(/\?$/, ''), schema]),
  ),
})

/**
 * Lengths are in code points, both in JSON Schema and in the definition of the field. The pattern means the same in the
 * regular expressions of ECMAScript (with and without the flag u), Python, Go, Java and Rust, so it names characters up to
 * U+00FF only. It never rejects what the service accepts. The service also rejects lone surrogates and, alone, other white space.
 */
const textSchema = ({ maxCodePoints, example }: TextField): Schema => ({
  type: 'string',
  minLength: 1,
  maxLength: maxCodePoints,
  pattern: '^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\x00-\\x20\\x7f-\\xa0][^\\x00-\\x1f\\x7f-\\x9f]*$',
  examples: [example],
})

/** Whether a stored record can lack the field. */
export const isRemovable = ({ required }: TextField): boolean => required !== 'always'

/** The members of an object with the fields of a resource. */
export const fieldMembers = (
  { fields }: Resource,
  isOptional: (field: TextField) => boolean = isRemovable,
  isNullable: (field: TextField) => boolean = () => false,
): Schemas =>
  Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [
      isOptional(field) ? `${name}?` : name,
      { ...textSchema(field), ...(isNullable(field) && { type: ['string', 'null'] }) },
    ]),
  )
