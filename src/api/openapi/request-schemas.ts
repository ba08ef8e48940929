// What the document says of the bodies of requests.
import type { Config } from '../../config/config.ts'
import type { Relation, Resource } from '../../model/resource.ts'
import {
  capital,
  fieldsOf,
  idSchema,
  listOf,
  object,
  ref,
  removableOf,
  type Schema,
  textSchema,
} from './json-schema.ts'

type Limits = Config['limits']

/** What it does not name is refused, but for `meta`. */
function body(
  description: string,
  properties: Readonly<Record<string, Schema>>,
  optional: readonly string[] = [],
): Schema {
  const meta = { description: 'Ignored, so that what was read can be sent back.' }
  return {
    description,
    ...object({ ...properties, meta }, [...optional, 'meta']),
    additionalProperties: false,
  }
}

const batchOf = (name: string, type: string, does: string, { batchEntries }: Limits): Schema =>
  body(`A batch: each entry is ${does} or fails by itself.`, {
    [name]: { ...listOf(ref(type)), minItems: 1, maxItems: batchEntries },
  })

/** The bodies that create, replace and change a record, by name. */
export function recordBodies(resource: Resource, limits: Limits): Record<string, Schema> {
  const { plural, singular } = resource
  const type = capital(singular)
  const id = { ...idSchema, description: 'May repeat the id of the path.' }
  const fields = fieldsOf(resource, field => ({
    ...textSchema(field),
    ...(field.required === 'create' && { type: ['string', 'null'] }),
  }))
  return {
    [`New${type}`]: body(`The fields of one new ${singular}.`, fieldsOf(resource)),
    [`New${capital(plural)}`]: batchOf(plural, `New${type}`, 'created', limits),
    [`${type}Replacement`]: body('All fields: one that is missing or null is removed.', { id, ...fields }, [
      'id',
      ...removableOf(resource),
    ]),
    [`${type}Changes`]: body('The fields to change; null removes a field.', { id, ...fields }, [
      'id',
      ...Object.keys(fields),
    ]),
  }
}

/** The bodies that name related records, by name. */
export function referenceBodies({ to, name }: Relation, limits: Limits): Record<string, Schema> {
  const type = `${capital(to.singular)}Reference`
  const ignored = fieldsOf(to, () => ({ description: 'Ignored.' }))
  return {
    [type]: body(`Names one ${to.singular}.`, { id: idSchema, ...ignored }, Object.keys(ignored)),
    [`${type}s`]: batchOf(name, type, 'added', limits),
  }
}
